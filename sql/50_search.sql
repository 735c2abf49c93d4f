-- Search. Candidates come from each arm after all filters; every candidate then gets its full score
-- from both arms, so a memory that one arm missed is judged by the other all the same. Scores are
-- absolute: keywords over Σidf × full weight, cosine over the cosine of a full match.

create or replace function memory._ranked(
    user_id text, agent_id text, query text, embedding halfvec, memory_types text[], tags text[], max_results integer,
    since timestamptz, until timestamptz, min_score double precision, min_confidence real)
returns table (
    id uuid, score double precision, matched text[], keyword_score double precision, cosine double precision)
language plpgsql stable
set search_path from current
as $$
#variable_conflict use_column
declare
    words text[];
    size integer;
    terms text[];
    idfs double precision[];
    taken integer;
    candidates integer;
    keyword_share double precision := memory._number('search.keyword_share');
begin
    words := memory._query_words(left(_ranked.query, 40000));
    size := memory._rows(_ranked.user_id, _ranked.agent_id);
    candidates := greatest(memory._number('search.candidates'), _ranked.max_results * 2);
    select array_agg(t.word order by t.rank), array_agg(t.idf order by t.rank), count(*) filter (where t.taken)
    into terms, idfs, taken
    from memory._query_terms(_ranked.user_id, _ranked.agent_id, words, size) as t
    where t.taken or t.rank <= 64;
    if _ranked.embedding is null then
        keyword_share := 1;
    elsif cardinality(words) = 0 then
        keyword_share := 0;
    end if;

    return query
    with found as materialized (
        select v.place
        from memory._vector_candidates(
            _ranked.user_id, _ranked.agent_id, _ranked.embedding, candidates, size, _ranked.memory_types, _ranked.tags,
            _ranked.since, _ranked.until, _ranked.min_confidence) as v
        union
        select k.place
        from memory._keyword_candidates(
            _ranked.user_id, _ranked.agent_id, terms[:taken], idfs[:taken], candidates, _ranked.memory_types, _ranked.tags,
            _ranked.since, _ranked.until, _ranked.min_confidence) as k
    ),
    arms as materialized (
        select
            m.id,
            m.place,
            coalesce(k.score, 0) / nullif(
                memory._number('search.full_weight') * (select sum(idf) from unnest(idfs) as idf), 0) as keyword_score,
            case when m.embedding is not null then greatest(0, 1 - (m.embedding <=> _ranked.embedding)) end as cosine,
            coalesce(k.matched, '{}') as matched
        from found
        join memory.memories as m
            on m.user_id = _ranked.user_id and m.place = found.place
            and (m.agent_id = _ranked.agent_id or m.shared) and m.state = 'active'
        left join memory._keyword_scores(
            _ranked.user_id, _ranked.agent_id, array(select f.place from found as f), terms, idfs) as k
            on k.place = found.place
    ),
    fused as materialized (
        select arms.id, arms.place, arms.keyword_score, arms.cosine, arms.matched,
            -- what is not embedded yet is judged by its words alone
            case when arms.cosine is null then coalesce(arms.keyword_score, 0)
                else keyword_share * coalesce(arms.keyword_score, 0)
                    + (1 - keyword_share) * arms.cosine / memory._number('search.full_cosine') end as score
        from arms
    ),
    scored as (
        select fused.id, fused.keyword_score, fused.cosine, fused.matched,
            (fused.score + memory._number('search.neighbour_score')
                * (coalesce(before.score, 0) + coalesce(after.score, 0)))
            * memory._prior(m, coalesce(u.uses, 0)) as score
        from fused
        join memory.memories as m on m.user_id = _ranked.user_id and m.id = fused.id
        left join fused as before on before.place = fused.place - 1
        left join fused as after on after.place = fused.place + 1
        left join memory.usage as u on u.user_id = _ranked.user_id and u.memory_id = fused.id
    ),
    best as (
        select scored.id, scored.keyword_score, scored.cosine, scored.matched, scored.score
        from scored
        where scored.score >= coalesce(_ranked.min_score, memory._number('search.floor'))
        order by scored.score desc, scored.id desc
        limit _ranked.max_results
    )
    select best.id, best.score, best.matched, best.keyword_score, best.cosine
    from best;
end;
$$;
comment on function memory._ranked(
    text, text, text, halfvec, text[], text[], integer, timestamptz, timestamptz, double precision, real) is
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
begin
    perform memory._check_search(search.query, search.max_results);
    perform memory._check_types(search.memory_types);
    perform memory._check_embedding(search.embedding);
    if search.embedding is null then
        raise notice 'searched by keywords only: no vector was given';
    end if;
    return query
    select m.id, m.content, m.memory_type, m.occurred_at,
        round(r.score::numeric, 4)::double precision,
        memory._why(r.matched, r.cosine),
        round(r.keyword_score::numeric, 4)::double precision,
        round(r.cosine::numeric, 4)::double precision,
        memory._as_json(m)
    from memory._ranked(
        search.user_id, search.agent_id, search.query, search.embedding, search.memory_types, search.tags,
        search.max_results, search.since, search.until, search.min_score, search.min_confidence) as r
    join memory.memories as m on m.user_id = search.user_id and m.id = r.id
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

create or replace function memory._prior(m memory.memories, uses integer)
returns double precision
language sql stable parallel safe
as $$
    select (1 + memory._number('search.recency_weight') * (
        select power(0.5, greatest(0, extract(epoch from memory._now() - m.occurred_at)) / 86400 / t.half_life_days)
        from memory.memory_types as t where t.name = m.memory_type))
    * (1 + memory._number('search.confidence_weight') * (m.confidence - 0.8))
    * (1 + memory._number('search.use_weight') * (1 - exp(-_prior.uses / 10.0)))
$$;
comment on function memory._prior(memory.memories, integer) is
'A bounded factor near 1: recency by the half-life of the type, confidence, use. It orders near-ties and never buries a strong match.';

create or replace function memory._why(matched text[], cosine double precision)
returns text
language sql immutable parallel safe
return coalesce(nullif(concat_ws('; ',
    case when cardinality(_why.matched) > 0 then 'words: ' || array_to_string(_why.matched, ', ') end,
    case
        when _why.cosine >= 0.5 then 'very close in meaning'
        when _why.cosine >= 0.3 then 'close in meaning'
        when _why.cosine >= 0.2 then 'somewhat close in meaning'
    end), ''), 'next to a matching turn, or far in meaning');
comment on function memory._why(text[], double precision) is 'Why a memory was found, in a few words.';

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
            'filters', jsonb_build_object('memory_type', search_reply.memory_types, 'tags', search_reply.tags,
                'min_score', search_reply.min_score),
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
        null, null, 1, null, null, null, null);
    perform memory._leave(previous);
end;
$$;
comment on function memory._warm() is
'Plans a search in a new connection, so that its first caller does not wait for it.';
