-- The vector arm. The planner is never asked which way to go: a tenant of moderate size is compared
-- exactly, a larger one through HNSW with an iterative scan, which goes on until enough rows have
-- passed the filters.

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
        and (
            ((filters).since is null and (filters).until is null)
            or (m.occurred_at >= coalesce((filters).since, '-infinity')
                and m.occurred_at < coalesce((filters).until, 'infinity'))
            or (m.event_from < coalesce((filters).until, 'infinity')
                and m.event_to > coalesce((filters).since, '-infinity')))
$$;
comment on function memory._matches(memory.memories, memory.filters) is
'The filters of every arm. A window [since, until) holds what was said in it or speaks of a time that overlaps it.';

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
    user_id text, agent_id text, embedding halfvec, candidates integer,
    filters memory.filters)
returns table (place bigint, cosine double precision)
language plpgsql stable
set search_path from current
set plan_cache_mode = force_custom_plan
set enable_sort = off
set hnsw.iterative_scan = strict_order
set hnsw.max_scan_tuples = 200000
set hnsw.ef_search = 200
as $$
begin
    perform set_config('hnsw.ef_search',
        least(1000, greatest(memory._number('search.ef_search'), _vector_hnsw.candidates))::text, true);
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
comment on function memory._vector_hnsw(text, text, halfvec, integer, memory.filters) is
'Nearest memories through the HNSW index of the user''s partition, scanned on until enough rows have passed the filters.';

create or replace function memory._vector_candidates(
    user_id text, agent_id text, embedding halfvec, candidates integer, rows_of_user integer,
    filters memory.filters)
returns table (place bigint, cosine double precision)
language plpgsql stable
set search_path from current
as $$
begin
    if _vector_candidates.embedding is null then
        return;
    end if;
    if _vector_candidates.rows_of_user <= memory._number('search.exact_rows')
        or (_vector_candidates.filters).places is not null then
        return query
        select v.place, v.cosine from memory._vector_exact(
            _vector_candidates.user_id, _vector_candidates.agent_id, _vector_candidates.embedding,
            _vector_candidates.candidates, _vector_candidates.filters) as v;
    else
        return query
        select v.place, v.cosine from memory._vector_hnsw(
            _vector_candidates.user_id, _vector_candidates.agent_id, _vector_candidates.embedding,
            _vector_candidates.candidates, _vector_candidates.filters) as v;
    end if;
end;
$$;
comment on function memory._vector_candidates(
    text, text, halfvec, integer, integer, memory.filters) is
'The vector arm: routes to the exact scan or to HNSW by the number of the user''s memories. No vector, no candidates.';
