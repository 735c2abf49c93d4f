-- Ranking. Candidates come from each arm after all filters; every candidate then gets its full score from
-- both arms, so a memory that one arm missed is judged by the other all the same. Scores are absolute:
-- keywords over Σidf × full weight, cosine over the cosine of a full match.

create or replace function memory._ranked(
    user_id text, agent_id text, reading memory.reading, embedding halfvec, max_results integer,
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
    answer_weight double precision;
    window_boost double precision;
    named_types text[];
    named_words text[];
    script real := memory._script((_ranked.reading).query);
    said text := ' ' || regexp_replace(
        memory._lower(memory._fold(left((_ranked.reading).query, 1000))), '(''s\M|[^[:alnum:]]+)', ' ', 'g') || ' ';
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
    answer_weight := weights -> 'search.answer_weight';
    window_boost := weights -> 'search.window_boost';
    words := memory._query_words(left((_ranked.reading).query, 40000));
    size := memory._rows(_ranked.user_id, _ranked.agent_id);
    candidates := greatest((weights -> 'search.candidates')::integer, _ranked.max_results + 40);
    if _ranked.embedding is not null then
        select array_agg(v.place) into near_places
        from memory._vector_candidates(
            _ranked.user_id, _ranked.agent_id, _ranked.embedding, candidates, size, (_ranked.reading).filters) as v;
    end if;
    if cardinality(((_ranked.reading).filters).places) <= candidates then
        -- so few that each is judged, whether an arm finds it or not
        near_places := near_places || array(
            select m.place
            from unnest(((_ranked.reading).filters).places) as given (place)
            cross join lateral (
                select t.place from memory.memories as t
                where t.user_id = _ranked.user_id and t.place = given.place
                    and (t.agent_id = _ranked.agent_id or t.shared) and t.state = 'active'
                    and memory._matches(t, (_ranked.reading).filters)
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
            (_ranked.reading).filters) as k;
    else
        select array_agg(k.place), array_agg(k.score), array_agg(k.matched), max(k.full_score)
        into places, scores, matches, full_score
        from memory._keyword_large(
            _ranked.user_id, _ranked.agent_id, words, size, near_places, candidates, memory._lent(),
            (_ranked.reading).filters) as k;
    end if;

    -- a word that names a type or a tag only raises those memories
    named_types := array(select t.name from memory.memory_types as t where t.named_by && words);
    named_words := regexp_split_to_array(lower(left((_ranked.reading).query, 1000)), '\s+');
    -- the kinds of answer that the query wants, with their boosts
    select jsonb_object_agg(k.name, k.boost) into asked
    from memory.answer_kinds as k
    where memory._lower(left((_ranked.reading).query, 1000)) ~ k.query_pattern;

    return query
    with arms as materialized (
        select
            m.id, m.place, found.matched, m.memory_type, m.occurred_at, m.confidence, m.value, m.speaker, m.answers,
            m.memory_type = any (named_types) or m.tags && named_words as named,
            (_ranked.reading).matched is not null and (
                m.occurred_at >= coalesce((_ranked.reading).window_from, '-infinity')
                    and m.occurred_at < coalesce((_ranked.reading).window_to, 'infinity')
                or m.event_from < coalesce((_ranked.reading).window_to, 'infinity')
                    and m.event_to > coalesce((_ranked.reading).window_from, '-infinity')) as in_window,
            coalesce(found.score / nullif(full_weight * full_score, 0), 0)
                as keyword_score,
            case when m.embedding is not null and _ranked.embedding is not null
                then greatest(0, 1 - (m.embedding <=> _ranked.embedding)) end as cosine,
            abs(memory._script(m.content) - script) > 0.6 as foreign_script
        from unnest(places, scores, matches) as found (place, score, matched)
        cross join lateral (
            select t.id, t.place, t.content, t.memory_type, t.tags, t.occurred_at, t.event_from, t.event_to, t.confidence, t.value, t.speaker, t.answers,
                t.embedding
            from memory.memories as t
            where t.user_id = _ranked.user_id and t.place = found.place
                and (t.agent_id = _ranked.agent_id or t.shared) and t.state = 'active'
            limit 1) as m
    ),
    fused as (
        select arms.id, arms.place, arms.matched, arms.memory_type, arms.occurred_at, arms.confidence, arms.keyword_score, arms.cosine,
            arms.value - avg(arms.value) over () as value, arms.speaker, arms.answers, arms.named,
            arms.in_window,
            -- what is not embedded yet is judged by its words alone
            case when arms.cosine is null then arms.keyword_score
                -- words cannot match across scripts: the cosine stands in for a part of their score
                else keyword_share * greatest(arms.keyword_score, case when arms.foreign_script
                        then least(foreign_share * arms.cosine / full_cosine,
                            -- where words help nobody else, nothing has to be made up for
                            1.5 * max(arms.keyword_score) filter (where not arms.foreign_script) over ()) end)
                    + (1 - keyword_share) * arms.cosine / full_cosine
            end as score
        from arms
    ),
    lent as (
        select fused.id, fused.place, fused.matched, fused.memory_type, fused.occurred_at, fused.confidence, fused.keyword_score,
            fused.cosine, fused.value, fused.speaker, fused.answers, fused.named, fused.in_window,
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
            * (1 + case when lent.in_window then window_boost else 0 end
                + value_weight * greatest(-1, least(1, lent.value))
                + answer_weight * coalesce((
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
comment on function memory._ranked(text, text, memory.reading, halfvec, integer, double precision) is
'The best memories for a query, unordered, within the identity that is set: candidates of both arms, scored in full.';

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

create or replace function memory._warm()
returns void
language plpgsql stable
set search_path from current
as $$
declare
    previous text[] := memory._enter('_', '_');
begin
    perform memory._ranked(
        '_', '_', row('warm', null, '{}', null, null, null)::memory.reading,
        array_fill(1, array[(select e.dimensions from memory.embedding_model as e)])::vector::halfvec, 1, null);
    perform memory._leave(previous);
end;
$$;
comment on function memory._warm() is
'Plans a search in a new connection, so that its first caller does not wait for it.';
