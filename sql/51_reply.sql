-- A search as one reply, for the server: one statement, one round trip.

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
    explain boolean default false,
    time_zone text default null,
    as_of text default null
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
    held_at timestamptz;
    fingerprint text := md5(concat_ws('|', search_reply.query, search_reply.memory_types::text, search_reply.tags::text,
        search_reply.since, search_reply.until, search_reply.min_score, search_reply.recent_first, search_reply.time_zone,
        search_reply.as_of));
    skipped integer := 0;
    outside boolean := false;
    asked_window boolean;
    page jsonb;
    shown integer;
    found_count integer;
    notes text[] := '{}';
    reading memory.reading;
    previous text[] := memory._enter_known(search_reply.user_id, search_reply.agent_id);
begin
    if search_reply.time_zone is not null then
        perform memory._check_time_zone(search_reply.time_zone);
    end if;
    perform memory._check_search(search_reply.query, search_reply.max_results);
    perform memory._check_types(search_reply.memory_types);
    perform memory._check_embedding(search_reply.embedding);
    zone := memory._zone(search_reply.user_id, search_reply.time_zone);
    window_from := memory._timestamp('since', search_reply.since, zone);
    window_to := memory._window_end(search_reply.until, zone);
    held_at := memory._timestamp('as_of', search_reply.as_of, zone);
    if search_reply.cursor is not null then
        if search_reply.cursor !~ '^\d{1,4}-[0-9a-f]{32}$' or split_part(search_reply.cursor, '-', 2) <> fingerprint then
            perform memory._fail('MP005', 'the cursor does not belong to this search',
                'Repeat the search with the same arguments, or leave the cursor out.');
        end if;
        skipped := split_part(search_reply.cursor, '-', 1)::integer;
    end if;

    reading := memory._read_query(search_reply.user_id, search_reply.agent_id, search_reply.query,
        row(search_reply.memory_types, search_reply.tags, window_from, window_to, null, null, null, held_at)::memory.filters,
        zone, true);
    notes := (reading).notes;
    loop
        with found as (
            select s.memory, s.score, s.why, s.keyword_score, s.vector_score,
                row_number() over (order by
                    -- outside a window what is nearest to it comes first
                    case when outside then least(
                        abs(extract(epoch from s.occurred_at - (reading).window_from)),
                        abs(extract(epoch from s.occurred_at - (reading).window_to))) end,
                    s.n) as n
            from (
                select row_number() over () as n, r.memory, r.occurred_at, r.score, r.why, r.keyword_score, r.vector_score
                from memory._found(
                    search_reply.user_id, search_reply.agent_id, reading, search_reply.embedding,
                    case when outside then least(5, search_reply.max_results) else search_reply.max_results end,
                    search_reply.min_score, search_reply.recent_first) as r) as s
        ),
        shaped as (
            select found.n, (found.memory - '{version,created_at,updated_at}'::text[])
                || jsonb_build_object('score', found.score, 'why', found.why)
                || case when outside then '{"outside_window": true}' else '{}'::jsonb end
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
        asked_window := ((reading).filters).since is not null or ((reading).filters).until is not null or outside;
        exit when found_count > 0 or outside or skipped > 0 or window_from is not null or window_to is not null
            or not asked_window;
        outside := true;
        reading.filters.since := null;
        reading.filters.until := null;
        reading.filters.events_only := null;
        notes := notes || format('nothing in the time of %L: the nearest outside it are marked', (reading).matched);
    end loop;

    if search_reply.embedding is null then
        notes := notes || 'searched by keywords only: the query has no vector'::text;
    end if;
    if found_count = 0 then
        notes := notes || format('nothing found for agent %s of user %s', search_reply.agent_id, search_reply.user_id);
    end if;
    if shown < found_count then
        notes := notes || format('%s more: pass next_cursor with the same arguments', found_count - shown);
    end if;
    perform memory._leave(previous);
    return jsonb_build_object(
        'memories', page,
        'searched', jsonb_strip_nulls(jsonb_build_object(
            'user', search_reply.user_id,
            'agent', search_reply.agent_id,
            'window', case
                when window_from is not null or window_to is not null
                    then jsonb_build_object('from', window_from, 'to', window_to)
                when (reading).matched is not null
                    then jsonb_build_object(
                        'from', (reading).window_from, 'to', (reading).window_to, 'read_from', (reading).matched,
                        'filters', asked_window) end,
            'filters', jsonb_build_object('memory_type', ((reading).filters).memory_types,
                'tags', ((reading).filters).tags, 'min_score', search_reply.min_score, 'as_of', held_at),
            'arms', case when search_reply.embedding is null then '["keywords"]'::jsonb else '["keywords", "vector"]' end)),
        'notes', notes,
        'next_cursor', case when shown < found_count then (skipped + shown) || '-' || fingerprint end);
end;
$$;
comment on function memory.search_reply(
    text, text, text, halfvec, text[], text[], integer, text, text, double precision, boolean, text, boolean, text, text) is
'memory.search as one reply: {memories, searched, notes, next_cursor}, under the token limit of a reply. since and until are '
'ISO 8601, in the user''s time zone where they carry no offset; a date alone as until includes that day. '
'A time that the query asks about is the window, unless since or until is given; if nothing lies in it, the nearest outside it '
'come back marked.';
