-- The vector arm. The planner is never asked which way to go (it takes HNSW where most neighbours belong
-- to other users): memory._route compares the costs of an exact scan and of an iterative HNSW scan wide
-- enough to keep the recall.

create or replace function memory._rows(user_id text, agent_id text)
returns integer
-- volatile only because EXPLAIN is refused in any other function
language plpgsql volatile
as $$
declare
    counted integer;
    plan json;
begin
    select count(*)::integer into counted
    from (
        select from memory.memories as m
        where m.user_id = _rows.user_id and m.state = 'active'
        limit 2001) as bounded;
    if counted > 2000 then
        execute 'explain (format json) select from memory.memories as m where m.user_id = '
            || quote_literal(_rows.user_id) || ' and m.state = ''active''' into plan;
        counted := greatest(counted, (plan #>> '{0,Plan,Plan Rows}')::numeric::integer);
    end if;
    return counted;
end;
$$;
comment on function memory._rows(text, text) is
'How many active memories a user has: counted up to 2,000, above that the planner''s estimate.';

create or replace function memory._matches(m memory.memories, filters memory.filters)
returns boolean
language sql immutable parallel safe
as $$
    select ((filters).places is null or m.place = any ((filters).places))
        and ((filters).memory_types is null or m.memory_type = any ((filters).memory_types))
        and ((filters).tags is null or m.tags @> (filters).tags)
        and ((filters).min_confidence is null or m.confidence >= (filters).min_confidence)
        and ((filters).as_of is null
            or m.valid_from <= (filters).as_of and (m.valid_to is null or m.valid_to > (filters).as_of))
        and (
            ((filters).since is null and (filters).until is null)
            or ((filters).events_only is not true and m.occurred_at >= coalesce((filters).since, '-infinity')
                and m.occurred_at < coalesce((filters).until, 'infinity'))
            or (m.event_from < coalesce((filters).until, 'infinity')
                and m.event_to > coalesce((filters).since, '-infinity')))
$$;
comment on function memory._matches(memory.memories, memory.filters) is
'The filters of every arm. A window [since, until) holds what was said in it (unless events_only) or speaks of a time that overlaps it; as_of keeps what held then.';

create or replace function memory._vector_exact(
    user_id text, agent_id text, embedding halfvec, candidates integer,
    filters memory.filters)
returns table (place bigint, cosine double precision)
language plpgsql stable
set search_path from current
set plan_cache_mode = force_custom_plan
-- an index-only scan of memories_scan, where no filter needs more than it holds
set enable_seqscan = off
set enable_bitmapscan = off
set random_page_cost = 0.2
as $$
begin
    return query
    select m.place, 1 - (m.embedding <=> _vector_exact.embedding)
    from memory.memories as m
    where m.user_id = _vector_exact.user_id
        and (m.agent_id = _vector_exact.agent_id or m.shared)
        and m.state = 'active'
        and m.embedding is not null
        and memory._matches(m, _vector_exact.filters)
    -- "+ 0" keeps the planner from taking the HNSW index
    order by (m.embedding <=> _vector_exact.embedding) + 0
    limit _vector_exact.candidates;
end;
$$;
comment on function memory._vector_exact(text, text, halfvec, integer, memory.filters) is
'Nearest memories by comparing every one of the user: exact, about 1 µs a row.';

-- the settings of pgvector are known to the session only once its library is loaded
select '[1]'::vector;

create or replace function memory._vector_hnsw(
    user_id text, agent_id text, embedding halfvec, candidates integer, ef_search integer,
    filters memory.filters)
returns table (place bigint, cosine double precision)
language plpgsql stable
set search_path from current
set plan_cache_mode = force_custom_plan
set enable_sort = off
set hnsw.iterative_scan = strict_order
set hnsw.max_scan_tuples = 200000
set hnsw.ef_search = 100
as $$
begin
    perform set_config('hnsw.ef_search',
        least(1000, greatest(_vector_hnsw.ef_search, _vector_hnsw.candidates))::text, true);
    return query
    select m.place, 1 - (m.embedding <=> _vector_hnsw.embedding)
    from memory.memories as m
    where m.user_id = _vector_hnsw.user_id
        and (m.agent_id = _vector_hnsw.agent_id or m.shared)
        and m.state = 'active'
        and memory._matches(m, _vector_hnsw.filters)
    order by m.embedding <=> _vector_hnsw.embedding
    limit _vector_hnsw.candidates;
end;
$$;
comment on function memory._vector_hnsw(text, text, halfvec, integer, integer, memory.filters) is
'Nearest memories through the HNSW index of the user''s partition, scanned on until enough rows have passed the filters.';

create or replace function memory._route(user_id text, rows_of_user integer, filtered boolean, out exact boolean,
    out ef_search integer, out share real, out exact_ms real, out hnsw_ms real)
language plpgsql stable
set search_path from current
as $$
declare
    rows_of_partition real;
begin
    -- reltuples is -1 before the first analyze: then the user counts as alone
    select c.reltuples into rows_of_partition
    from (
        select m.tableoid as partition from memory.memories as m
        where m.user_id = _route.user_id and m.state = 'active'
        limit 1) as any_row
    join pg_class as c on c.oid = any_row.partition;
    share := greatest(0.01, least(1, rows_of_user / greatest(rows_of_partition, rows_of_user, 1)));
    -- the smaller the share, the more neighbours belong to others: recall@10 of 0.99 needs about 1/share² as many
    ef_search := greatest(40, ceil(memory._number('search.ef_search') / (share * share)));
    exact_ms := memory._number('search.exact_cost') * rows_of_user / 1000;
    hnsw_ms := memory._number('search.hnsw_cost') * ef_search / 100;
    -- pgvector allows 1,000 candidates; a filter may hide any of them
    exact := exact_ms <= hnsw_ms or ef_search > 1000 or filtered and exact_ms <= 20 * hnsw_ms;
end;
$$;
comment on function memory._route(text, integer, boolean) is
'Which way the vector arm goes: the cheaper of comparing every memory of the user and of an HNSW scan wide enough for '
'recall@10 of 0.99, by the number of memories and the user''s share of its partition. With filters it compares, unless that costs twenty times as much.';

create or replace function memory._vector_candidates(
    user_id text, agent_id text, embedding halfvec, candidates integer, rows_of_user integer,
    filters memory.filters)
returns table (place bigint, cosine double precision)
language plpgsql stable
set search_path from current
as $$
declare
    route record;
    found_places bigint[];
    cosines double precision[];
begin
    if _vector_candidates.embedding is null then
        return;
    end if;
    select r.exact, r.ef_search into route
    from memory._route(
        _vector_candidates.user_id, _vector_candidates.rows_of_user,
        (_vector_candidates.filters).memory_types is not null or (_vector_candidates.filters).tags is not null
            or (_vector_candidates.filters).since is not null or (_vector_candidates.filters).until is not null
            or (_vector_candidates.filters).min_confidence is not null
            or (_vector_candidates.filters).as_of is not null) as r;
    if not route.exact and (_vector_candidates.filters).places is null then
        select array_agg(v.place), array_agg(v.cosine) into found_places, cosines
        from memory._vector_hnsw(
            _vector_candidates.user_id, _vector_candidates.agent_id, _vector_candidates.embedding,
            _vector_candidates.candidates, route.ef_search, _vector_candidates.filters) as v;
        -- a scan can be caught among many equal vectors of others, or in what the filters hide
        if cardinality(found_places) >= least(_vector_candidates.candidates, _vector_candidates.rows_of_user) then
            return query select v.place, v.cosine from unnest(found_places, cosines) as v (place, cosine);
            return;
        end if;
    end if;
    return query
    select v.place, v.cosine from memory._vector_exact(
        _vector_candidates.user_id, _vector_candidates.agent_id, _vector_candidates.embedding,
        _vector_candidates.candidates, _vector_candidates.filters) as v;
end;
$$;
comment on function memory._vector_candidates(
    text, text, halfvec, integer, integer, memory.filters) is
'The vector arm: goes the way of memory._route, and compares every memory where HNSW returned too few. No vector, no candidates.';
