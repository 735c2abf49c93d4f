-- Search. Candidates come from each arm after all filters; every candidate then gets its full score
-- from both arms, so a memory that one arm missed is judged by the other all the same. Scores are
-- absolute: keywords over Σidf × full weight, cosine over the cosine of a full match.

create or replace function memory._ranked(
    user_id text, agent_id text, query text, embedding halfvec, filters memory.filters, max_results integer,
    min_score double precision)
returns table (
    id uuid, score double precision, matched text, keyword_score double precision, cosine double precision)
language plpgsql stable
set search_path from current
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    weights jsonb;
    words text[];
    size integer;
    near_places bigint[];
    places bigint[];
    scores double precision[];
    matches text[];
    full_score double precision;
    keyword_share double precision;
    candidates integer;
    asked jsonb;
    full_weight double precision;
    full_cosine double precision;
    foreign_share double precision;
    neighbour_score double precision;
    speaker_bonus double precision;
    value_weight double precision;
    type_boost double precision;
    recency_weight double precision;
    confidence_weight double precision;
    use_weight double precision;
    named_types text[];
    named_words text[];
    script real := memory._script(_ranked.query);
    said text := ' ' || regexp_replace(
        memory._lower(memory._fold(left(_ranked.query, 1000))), '(''s\M|[^[:alnum:]]+)', ' ', 'g') || ' ';
    moment timestamptz := memory._now();
begin
    select jsonb_object_agg(s.name, coalesce(s.value, s.default_value)) into weights
    from memory.settings as s where s.name like 'search.%';
    -- read once: what follows looks at every candidate
    full_weight := weights -> 'search.full_weight';
    full_cosine := weights -> 'search.full_cosine';
    foreign_share := weights -> 'search.foreign_share';
    neighbour_score := weights -> 'search.neighbour_score';
    speaker_bonus := weights -> 'search.speaker_bonus';
    value_weight := weights -> 'search.value_weight';
    type_boost := weights -> 'search.type_boost';
    recency_weight := weights -> 'search.recency_weight';
    confidence_weight := weights -> 'search.confidence_weight';
    use_weight := weights -> 'search.use_weight';
    words := memory._query_words(left(_ranked.query, 40000));
    size := memory._rows(_ranked.user_id, _ranked.agent_id);
    candidates := greatest((weights -> 'search.candidates')::integer, _ranked.max_results * 2);
    if _ranked.embedding is not null then
        select array_agg(v.place) into near_places
        from memory._vector_candidates(
            _ranked.user_id, _ranked.agent_id, _ranked.embedding, candidates, size, _ranked.filters) as v;
    end if;
    if cardinality((_ranked.filters).places) <= candidates then
        -- so few that each is judged, whether an arm finds it or not
        near_places := near_places || array(
            select m.place
            from unnest((_ranked.filters).places) as given (place)
            cross join lateral (
                select t.place from memory.memories as t
                where t.user_id = _ranked.user_id and t.place = given.place
                    and (t.agent_id = _ranked.agent_id or t.shared) and t.state = 'active'
                    and memory._matches(t, _ranked.filters)
                limit 1) as m);
    end if;
    keyword_share := case
        when _ranked.embedding is null then 1
        when cardinality(words) = 0 then 0
        else (weights -> 'search.keyword_share')::double precision end;
    if size <= 2000 and cardinality(words) <= 40 then
        select array_agg(k.place), array_agg(k.score), array_agg(k.matched), max(k.full_score)
        into places, scores, matches, full_score
        from memory._keyword_small(
            _ranked.user_id, _ranked.agent_id, words, size, near_places, candidates, memory._lent(),
            _ranked.filters) as k;
    else
        select array_agg(k.place), array_agg(k.score), array_agg(k.matched), max(k.full_score)
        into places, scores, matches, full_score
        from memory._keyword_large(
            _ranked.user_id, _ranked.agent_id, words, size, near_places, candidates, memory._lent(),
            _ranked.filters) as k;
    end if;

    -- a word that names a type or a tag only raises those memories
    named_types := array(select t.name from memory.memory_types as t where t.named_by && words);
    named_words := regexp_split_to_array(lower(left(_ranked.query, 1000)), '\s+');
    -- the kinds of answer that the query wants, with their boosts
    select jsonb_object_agg(k.name, k.boost) into asked
    from memory.answer_kinds as k
    where memory._lower(left(_ranked.query, 1000)) ~ k.query_pattern;

    return query
    with arms as materialized (
        select
            m.id, m.place, found.matched, m.memory_type, m.occurred_at, m.confidence, m.value, m.speaker, m.answers,
            m.memory_type = any (named_types) or m.tags && named_words as named,
            coalesce(found.score / nullif(full_weight * full_score, 0), 0)
                as keyword_score,
            case when m.embedding is not null and _ranked.embedding is not null
                then greatest(0, 1 - (m.embedding <=> _ranked.embedding)) end as cosine,
            abs(memory._script(m.content) - script) > 0.6 as foreign_script
        from unnest(places, scores, matches) as found (place, score, matched)
        cross join lateral (
            select t.id, t.place, t.content, t.memory_type, t.tags, t.occurred_at, t.confidence, t.value, t.speaker, t.answers,
                t.embedding
            from memory.memories as t
            where t.user_id = _ranked.user_id and t.place = found.place
                and (t.agent_id = _ranked.agent_id or t.shared) and t.state = 'active'
            limit 1) as m
    ),
    fused as (
        select arms.id, arms.place, arms.matched, arms.memory_type, arms.occurred_at, arms.confidence, arms.keyword_score, arms.cosine,
            arms.value - avg(arms.value) over () as value, arms.speaker, arms.answers, arms.named,
            -- what is not embedded yet is judged by its words alone
            case when arms.cosine is null then arms.keyword_score
                -- words cannot match across scripts: the cosine stands in for a part of their score
                else keyword_share * greatest(arms.keyword_score, case when arms.foreign_script
                        then foreign_share
                            * arms.cosine / full_cosine end)
                    + (1 - keyword_share) * arms.cosine / full_cosine
            end as score
        from arms
    ),
    lent as (
        select fused.id, fused.place, fused.matched, fused.memory_type, fused.occurred_at, fused.confidence, fused.keyword_score,
            fused.cosine, fused.value, fused.speaker, fused.answers, fused.named,
            fused.score + neighbour_score * (
                case when lag(fused.place) over turns = fused.place - 1 then lag(fused.score) over turns else 0 end
                + case when lead(fused.place) over turns = fused.place + 1 then lead(fused.score) over turns else 0 end)
                as score
        from fused
        window turns as (order by fused.place)
    ),
    weighed as (
        select lent.id, lent.keyword_score, lent.cosine, lent.matched,
            -- bounded factors near 1: they order near-ties and never bury a strong match
            (lent.score + case when lent.speaker = named.speaker
                then speaker_bonus else 0 end)
            * (1 + value_weight * greatest(-1, least(1, lent.value))
                + coalesce((
                    select sum((asked -> kind)::double precision)
                    from unnest(lent.answers) as kind where asked ? kind), 0)
                + case when lent.named then type_boost else 0 end)
            * (1 + recency_weight * power(0.5,
                greatest(0, extract(epoch from moment - lent.occurred_at)::double precision) / 86400 / t.half_life_days))
            * (1 + confidence_weight * (lent.confidence - 0.8))
            * (1 + use_weight * (1 - exp(-coalesce(u.uses, 0) / 10.0)))
                as score
        from lent
        cross join (
            -- the one speaker whom the query names
            select case when count(*) = 1 then min(s.speaker) end as speaker
            from (select distinct arms.speaker from arms where arms.speaker is not null) as s
            where position(case when s.speaker ~ '^[a-z0-9 ]+$' then ' ' || s.speaker || ' ' else s.speaker end in said) > 0
        ) as named
        join memory.memory_types as t on t.name = lent.memory_type
        left join lateral (
            select c.uses from memory.usage as c
            where c.user_id = _ranked.user_id and c.memory_id = lent.id
            limit 1) as u on true
    )
    select weighed.id, weighed.score,
        weighed.matched, weighed.keyword_score, weighed.cosine
    from weighed
    where weighed.score >= coalesce(_ranked.min_score, (weights -> 'search.floor')::double precision)
    order by weighed.score desc, weighed.id desc
    limit _ranked.max_results;
end;
$$;
comment on function memory._ranked(text, text, text, halfvec, memory.filters, integer, double precision) is
'The best memories for a query, unordered, within the identity that is set: candidates of both arms, scored in full.';

create or replace function memory.search(
    user_id text,
    agent_id text,
    query text,
    embedding halfvec default null,
    memory_types text[] default null,
    tags text[] default null,
    max_results integer default 10,
    since timestamptz default null,
    until timestamptz default null,
    min_score double precision default null,
    min_confidence real default null,
    recent_first boolean default false
)
returns table (
    id uuid,
    content text,
    memory_type text,
    occurred_at timestamptz,
    score double precision,
    why text,
    keyword_score double precision,
    vector_score double precision,
    memory jsonb
)
language plpgsql stable
set search_path from current
as $$
#variable_conflict use_column
declare
    previous text[] := memory._enter_known(search.user_id, search.agent_id);
    reading memory.reading;
begin
    perform memory._check_search(search.query, search.max_results);
    perform memory._check_types(search.memory_types);
    perform memory._check_embedding(search.embedding);
    reading := memory._read_query(search.user_id, search.agent_id, search.query,
        row(search.memory_types, search.tags, search.since, search.until, search.min_confidence, null)::memory.filters);
    if search.embedding is null then
        raise notice 'searched by keywords only: no vector was given';
    end if;
    return query
    select m.id, m.content, m.memory_type, m.occurred_at,
        round(r.score::numeric, 4)::double precision,
        memory._why(r.matched, r.cosine),
        round(r.keyword_score::numeric, 4)::double precision,
        round(r.cosine::numeric, 4)::double precision,
        memory._as_json(m::memory.memories)
    from memory._ranked(
        search.user_id, search.agent_id, (reading).query, search.embedding, (reading).filters, search.max_results,
        search.min_score) as r
    cross join lateral (
        select t.* from memory.memories as t where t.user_id = search.user_id and t.id = r.id limit 1) as m
    order by
        case when search.recent_first then m.occurred_at end desc,
        r.score desc,
        m.id desc;
    perform memory._leave(previous);
end;
$$;
comment on function memory.search(
    text, text, text, halfvec, text[], text[], integer, timestamptz, timestamptz, double precision, real, boolean) is
'Finds memories by meaning (the vector of the query) and by words (BM25); without a vector by words only, which a notice says. '
'Filters hold before any limit: all named tags, one of the types, the window [since, until), a confidence floor. '
'score is absolute: near 0 for an unrelated memory, about 1 for a full match. recent_first orders what was found by time.';

create or replace function memory._check_search(query text, max_results integer)
returns void
language plpgsql stable
as $$
begin
    if _check_search.query is null or btrim(_check_search.query, E' \t\n\r') = '' then
        perform memory._fail('MP005', 'the query is empty', 'Say what to look for, or list memories instead.');
    end if;
    if octet_length(_check_search.query) > memory._number('limits.query') then
        perform memory._fail('MP005', format('the query is longer than %s bytes', memory._number('limits.query')),
            'Search for the essence of it.');
    end if;
    if _check_search.max_results is null or _check_search.max_results < 1
        or _check_search.max_results > memory._number('limits.results') then
        perform memory._fail('MP005', format('limit is not between 1 and %s', memory._number('limits.results')),
            'Pass a limit in that range.');
    end if;
end;
$$;
comment on function memory._check_search(text, integer) is 'Refuses an empty or too long query and a limit out of range.';

create or replace function memory._why(matched text, cosine double precision)
returns text
language sql immutable parallel safe
return coalesce(nullif(concat_ws('; ',
    'words: ' || nullif(_why.matched, ''),
    case
        when _why.cosine >= 0.5 then 'very close in meaning'
        when _why.cosine >= 0.3 then 'close in meaning'
        when _why.cosine >= 0.2 then 'somewhat close in meaning'
    end), ''), 'next to a matching turn, or far in meaning');
comment on function memory._why(text, double precision) is 'Why a memory was found, in a few words.';

create or replace function memory.search_reply(
    user_id text,
    agent_id text,
    query text,
    embedding halfvec default null,
    memory_types text[] default null,
    tags text[] default null,
    max_results integer default 10,
    since text default null,
    until text default null,
    min_score double precision default null,
    recent_first boolean default false,
    cursor text default null,
    explain boolean default false
)
returns jsonb
language plpgsql stable
set search_path from current
set client_min_messages = warning
as $$
#variable_conflict use_column
declare
    zone text;
    window_from timestamptz;
    window_to timestamptz;
    fingerprint text := md5(concat_ws('|', search_reply.query, search_reply.memory_types::text, search_reply.tags::text,
        search_reply.since, search_reply.until, search_reply.min_score, search_reply.recent_first));
    skipped integer := 0;
    page jsonb;
    shown integer;
    found_count integer;
    notes text[] := '{}';
    reading memory.reading;
    previous text[];
begin
    zone := memory._zone_of(search_reply.user_id, search_reply.agent_id);
    window_from := memory._timestamp('since', search_reply.since, zone);
    window_to := memory._window_end(search_reply.until, zone);
    if search_reply.cursor is not null then
        if search_reply.cursor !~ '^\d{1,4}-[0-9a-f]{32}$' or split_part(search_reply.cursor, '-', 2) <> fingerprint then
            perform memory._fail('MP005', 'the cursor does not belong to this search',
                'Repeat the search with the same arguments, or leave the cursor out.');
        end if;
        skipped := split_part(search_reply.cursor, '-', 1)::integer;
    end if;

    with found as materialized (
        select row_number() over () as n, s.memory, s.score, s.why, s.keyword_score, s.vector_score
        from memory.search(
            user_id => search_reply.user_id, agent_id => search_reply.agent_id, query => search_reply.query,
            embedding => search_reply.embedding, memory_types => search_reply.memory_types, tags => search_reply.tags,
            max_results => search_reply.max_results, since => window_from, until => window_to,
            min_score => search_reply.min_score, recent_first => search_reply.recent_first) as s
    ),
    shaped as (
        select found.n, (found.memory - '{version,created_at,updated_at}'::text[])
            || jsonb_build_object('score', found.score, 'why', found.why)
            || case when search_reply.explain
                then jsonb_build_object('arms', jsonb_strip_nulls(jsonb_build_object(
                    'keyword', found.keyword_score, 'vector', found.vector_score)))
                else '{}' end as memory
        from found
        where found.n > skipped
    ),
    measured as (
        select shaped.n, shaped.memory,
            sum(memory.estimate_tokens(shaped.memory::text)) over (order by shaped.n) as tokens
        from shaped
    )
    select
        coalesce(jsonb_agg(measured.memory order by measured.n)
            filter (where measured.tokens <= memory._number('limits.reply') or measured.n = skipped + 1), '[]'),
        count(*) filter (where measured.tokens <= memory._number('limits.reply') or measured.n = skipped + 1),
        count(*)
    into page, shown, found_count
    from measured;

    previous := memory._enter(search_reply.user_id, search_reply.agent_id);
    reading := memory._read_query(search_reply.user_id, search_reply.agent_id, search_reply.query,
        row(search_reply.memory_types, search_reply.tags, window_from, window_to, null, null)::memory.filters);
    perform memory._leave(previous);
    notes := (reading).notes;
    if search_reply.embedding is null then
        notes := notes || 'searched by keywords only: the query has no vector'::text;
    end if;
    if found_count = 0 then
        notes := notes || format('nothing found for agent %s of user %s', search_reply.agent_id, search_reply.user_id);
    end if;
    if shown < found_count then
        notes := notes || format('%s more: pass next_cursor with the same arguments', found_count - shown);
    end if;
    return jsonb_build_object(
        'memories', page,
        'searched', jsonb_strip_nulls(jsonb_build_object(
            'user', search_reply.user_id,
            'agent', search_reply.agent_id,
            'window', case when window_from is not null or window_to is not null
                then jsonb_build_object('from', window_from, 'to', window_to) end,
            'filters', jsonb_build_object('memory_type', ((reading).filters).memory_types,
                'tags', ((reading).filters).tags, 'min_score', search_reply.min_score),
            'arms', case when search_reply.embedding is null then '["keywords"]'::jsonb else '["keywords", "vector"]' end)),
        'notes', notes,
        'next_cursor', case when shown < found_count then (skipped + shown) || '-' || fingerprint end);
end;
$$;
comment on function memory.search_reply(
    text, text, text, halfvec, text[], text[], integer, text, text, double precision, boolean, text, boolean) is
'memory.search as one reply: {memories, searched, notes, next_cursor}, under the token limit of a reply. since and until are '
'ISO 8601, in the user''s time zone where they carry no offset; a date alone as until includes that day.';

create or replace function memory._zone_of(user_id text, agent_id text)
returns text
language plpgsql stable
as $$
declare
    previous text[] := memory._enter_known(_zone_of.user_id, _zone_of.agent_id);
    zone text := memory._zone(_zone_of.user_id);
begin
    perform memory._leave(previous);
    return zone;
end;
$$;
comment on function memory._zone_of(text, text) is 'The user''s time zone, read under the user''s identity.';

create or replace function memory._window_end(until text, time_zone text)
returns timestamptz
language sql stable
return case
    when length(_window_end.until) = 10
        then ((memory._timestamp('until', _window_end.until, _window_end.time_zone) at time zone _window_end.time_zone)
            + interval '1 day') at time zone _window_end.time_zone
    else memory._timestamp('until', _window_end.until, _window_end.time_zone)
end;
comment on function memory._window_end(text, text) is 'The end of a window: a date alone includes that day.';

create or replace function memory._warm()
returns void
language plpgsql stable
set search_path from current
as $$
declare
    previous text[] := memory._enter('_', '_');
begin
    perform memory._ranked(
        '_', '_', 'warm', array_fill(1, array[(select e.dimensions from memory.embedding_model as e)])::vector::halfvec,
        row(null, null, null, null, null, null)::memory.filters, 1, null);
    perform memory._leave(previous);
end;
$$;
comment on function memory._warm() is
'Plans a search in a new connection, so that its first caller does not wait for it.';
