-- Search, for people in psql and for programs that want rows.

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

create or replace function memory._found(
    user_id text, agent_id text, reading memory.reading, embedding halfvec, max_results integer,
    min_score double precision, recent_first boolean)
returns table (
    id uuid, content text, memory_type text, occurred_at timestamptz, score double precision, why text,
    keyword_score double precision, vector_score double precision, memory jsonb)
language plpgsql stable
set search_path from current
as $$
#variable_conflict use_column
begin
    return query
    select m.id, m.content, m.memory_type, m.occurred_at,
        round(r.score::numeric, 4)::double precision,
        memory._why(r.matched, r.cosine),
        round(r.keyword_score::numeric, 4)::double precision,
        round(r.cosine::numeric, 4)::double precision,
        memory._as_json(m::memory.memories)
    from memory._ranked(
        _found.user_id, _found.agent_id, reading, _found.embedding, _found.max_results, _found.min_score) as r
    cross join lateral (
        select t.* from memory.memories as t where t.user_id = _found.user_id and t.id = r.id limit 1) as m
    order by
        case when _found.recent_first then m.occurred_at end desc,
        r.score desc,
        m.id desc;
end;
$$;
comment on function memory._found(
    text, text, memory.reading, halfvec, integer, double precision, boolean) is
'What a search finds, in its order, for a query that was read, within the identity that is set.';

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
    min_confidence double precision default null,
    recent_first boolean default false,
    time_zone text default null,
    read_time boolean default true,
    as_of timestamptz default null
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
        row(search.memory_types, search.tags, search.since, search.until, search.min_confidence::real, null, null,
            search.as_of)::memory.filters,
        memory._zone(search.user_id, search.time_zone), search.read_time);
    if search.embedding is null then
        raise notice 'searched by keywords only: no vector was given';
    end if;
    return query
    select f.id, f.content, f.memory_type, f.occurred_at, f.score, f.why, f.keyword_score, f.vector_score, f.memory
    from memory._found(
        search.user_id, search.agent_id, reading, search.embedding, search.max_results, search.min_score,
        search.recent_first) as f;
    perform memory._leave(previous);
end;
$$;
comment on function memory.search(
    text, text, text, halfvec, text[], text[], integer, timestamptz, timestamptz, double precision, double precision, boolean, text, boolean,
    timestamptz) is
'Finds memories by meaning (the vector of the query) and by words (BM25); without a vector by words only, which a notice says. '
'Filters hold before any limit: all named tags, one of the types, the window [since, until), a confidence floor. '
'A time in the query (memory.parse_time, in time_zone or the user''s) is the window where the query asks about that time, otherwise it '
'only raises what lies in it; read_time => false leaves it alone. as_of keeps what held at that time. '
'score is absolute: near 0 for an unrelated memory, about 1 for a full match. recent_first orders what was found by time.';
