-- How a search would go, for DBAs.

create or replace function memory.explain_search(
    user_id text,
    agent_id text,
    query text,
    embedding halfvec default null,
    memory_types text[] default null,
    tags text[] default null,
    since timestamptz default null,
    until timestamptz default null
)
returns table (step text, finding text)
language plpgsql stable
set search_path from current
as $$
#variable_conflict use_column
declare
    previous text[] := memory._enter_known(explain_search.user_id, explain_search.agent_id);
    reading memory.reading;
    f memory.filters;
    size integer;
    words text[];
    route record;
begin
    perform memory._check_search(explain_search.query, 1);
    reading := memory._read_query(explain_search.user_id, explain_search.agent_id, explain_search.query,
        row(explain_search.memory_types, explain_search.tags, explain_search.since, explain_search.until, null, null, null, null)::memory.filters,
        memory._zone(explain_search.user_id), true);
    f := (reading).filters;
    words := memory._query_words((reading).query);
    size := memory._rows(explain_search.user_id, explain_search.agent_id);
    step := 'user';
    finding := format('%s active memories', size);
    return next;
    step := 'filters';
    finding := concat_ws('; ',
        'types ' || array_to_string(f.memory_types, ', '), 'tags ' || array_to_string(f.tags, ', '),
        'from ' || f.since, 'until ' || f.until, cardinality(f.places) || ' places alone are looked at');
    finding := coalesce(nullif(finding, ''), 'none');
    return next;
    if (reading).matched is not null then
        step := 'time';
        finding := format('%L: %s to %s, %s', (reading).matched, (reading).window_from, (reading).window_to,
            case when f.since is not null or f.until is not null then 'filters' else 'only raises what lies in it' end);
        return next;
    end if;
    step := 'note';
    foreach finding in array (reading).notes loop
        return next;
    end loop;
    step := 'vector arm';
    select r.exact, r.ef_search, r.share, r.exact_ms, r.hnsw_ms into route
    from memory._route(explain_search.user_id, size,
        f.memory_types is not null or f.tags is not null or f.since is not null or f.until is not null) as r;
    finding := case
        when explain_search.embedding is null then 'left out: no vector was given'
        when f.places is not null then 'compares the places that the filters leave'
        when route.exact then format('compares every memory (about %s ms; HNSW about %s ms with ef_search %s, the user has %s %% of its partition)',
            round(route.exact_ms::numeric, 1), round(route.hnsw_ms::numeric, 1), route.ef_search, round((100 * route.share)::numeric, 1))
        else format('HNSW with ef_search %s (about %s ms; comparing every memory about %s ms, the user has %s %% of its partition)',
            route.ef_search, round(route.hnsw_ms::numeric, 1), round(route.exact_ms::numeric, 1), round((100 * route.share)::numeric, 1)) end;
    return next;
    step := 'keyword arm';
    finding := case when size <= 2000 and cardinality(words) <= 40
        then 'reads every posting of the words'
        else 'reads the postings of the rarest words; the common ones only score what was found' end;
    return next;
    step := 'word';
    for finding in
        select format('%s: in about %s memories, idf %s%s', t.word, t.df::integer, round(t.idf::numeric, 2),
            case when not t.taken then ', common' else '' end)
        from memory._query_terms(explain_search.user_id, explain_search.agent_id, words, size) as t
        order by t.rank
        limit 64
    loop
        return next;
    end loop;
    perform memory._leave(previous);
end;
$$;
comment on function memory.explain_search(text, text, text, halfvec, text[], text[], timestamptz, timestamptz) is
'Tells which way a search would go and why: filters read from the query, exact scan or HNSW, which words are read and how rare they are.';
