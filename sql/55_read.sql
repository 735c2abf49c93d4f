-- Reading without a question: one memory, or the memories by time.

create or replace function memory.get(user_id text, agent_id text, memory_id uuid)
returns jsonb
language plpgsql stable
set search_path from current
as $$
declare
    previous text[] := memory._enter_known(get.user_id, get.agent_id);
    result jsonb;
begin
    select memory._as_json(m) into result
    from memory.memories as m
    where m.user_id = get.user_id and (m.agent_id = get.agent_id or m.shared) and m.id = get.memory_id
        and m.state <> 'forgotten';
    perform memory._leave(previous);
    if result is null then
        perform memory._not_found(get.memory_id);
    end if;
    return result;
end;
$$;
comment on function memory.get(text, text, uuid) is 'One memory, own or shared. Absent and not yours are the same error.';

create or replace function memory._not_found(memory_id uuid)
returns void
language plpgsql immutable
as $$
begin
    perform memory._fail('MP003', format('no memory %s', _not_found.memory_id),
        'Use an id that a save, search or list of this agent returned.');
end;
$$;
comment on function memory._not_found(uuid) is 'The one answer for what does not exist, is forgotten, or belongs to somebody else.';

create or replace function memory.list(
    user_id text,
    agent_id text,
    memory_types text[] default null,
    tags text[] default null,
    max_results integer default 20,
    since timestamptz default null,
    until timestamptz default null,
    before_time timestamptz default null,
    before_id uuid default null
)
returns table (id uuid, content text, memory_type text, occurred_at timestamptz, memory jsonb)
language plpgsql stable
set search_path from current
as $$
#variable_conflict use_column
declare
    previous text[] := memory._enter_known(list.user_id, list.agent_id);
begin
    perform memory._check_search('-', list.max_results);
    perform memory._check_types(list.memory_types);
    return query
    select m.id, m.content, m.memory_type, m.occurred_at, memory._as_json(m)
    from memory.memories as m
    where m.user_id = list.user_id and (m.agent_id = list.agent_id or m.shared)
        and m.state = 'active'
        and memory._matches(m, row(list.memory_types, list.tags, list.since, list.until, null, null, null, null)::memory.filters)
        and (list.before_time is null or (m.occurred_at, m.id) < (list.before_time, list.before_id))
    order by m.occurred_at desc, m.id desc
    limit list.max_results;
    perform memory._leave(previous);
end;
$$;
comment on function memory.list(text, text, text[], text[], integer, timestamptz, timestamptz, timestamptz, uuid) is
'Memories by time, newest first: all named tags, one of the types, the window [since, until). '
'before_time and before_id continue after the last row of a page.';

create or replace function memory.list_reply(
    user_id text,
    agent_id text,
    memory_types text[] default null,
    tags text[] default null,
    max_results integer default 20,
    since text default null,
    until text default null,
    cursor text default null
)
returns jsonb
language plpgsql stable
set search_path from current
as $$
#variable_conflict use_column
declare
    zone text;
    window_from timestamptz;
    window_to timestamptz;
    before_time timestamptz;
    before_id uuid;
    page jsonb;
    shown integer;
    found_count integer;
    next_cursor text;
begin
    zone := memory._zone_of(list_reply.user_id, list_reply.agent_id);
    window_from := memory._timestamp('since', list_reply.since, zone);
    window_to := memory._window_end(list_reply.until, zone);
    if list_reply.cursor is not null then
        begin
            before_time := to_timestamp(split_part(list_reply.cursor, '_', 1)::numeric / 1000000);
            before_id := split_part(list_reply.cursor, '_', 2)::uuid;
        exception when others then
            perform memory._fail('MP005', 'the cursor is not one of list_memories',
                'Pass next_cursor as it was returned, or leave it out.');
        end;
    end if;

    with found as materialized (
        select row_number() over () as n, l.memory - '{version,created_at,updated_at}'::text[] as memory, l.occurred_at, l.id
        from memory.list(
            user_id => list_reply.user_id, agent_id => list_reply.agent_id, memory_types => list_reply.memory_types,
            tags => list_reply.tags, max_results => list_reply.max_results,
            since => window_from, until => window_to, before_time => before_time, before_id => before_id) as l
    ),
    measured as (
        select found.n, found.memory, found.occurred_at, found.id,
            sum(memory.estimate_tokens(found.memory::text)) over (order by found.n) as tokens
        from found
    ),
    kept as (
        select measured.n, measured.memory, measured.occurred_at, measured.id
        from measured
        where measured.tokens <= memory._number('limits.reply') or measured.n = 1
    )
    select
        coalesce((select jsonb_agg(kept.memory order by kept.n) from kept), '[]'),
        (select count(*) from kept),
        (select count(*) from found),
        (select (extract(epoch from kept.occurred_at) * 1000000)::numeric(20, 0) || '_' || kept.id
            from kept order by kept.n desc limit 1)
    into page, shown, found_count, next_cursor;

    return jsonb_build_object(
        'memories', page,
        'searched', jsonb_strip_nulls(jsonb_build_object(
            'user', list_reply.user_id,
            'agent', list_reply.agent_id,
            'window', case when window_from is not null or window_to is not null
                then jsonb_build_object('from', window_from, 'to', window_to) end,
            'filters', jsonb_build_object('memory_type', list_reply.memory_types, 'tags', list_reply.tags),
            'arms', '[]'::jsonb)),
        'notes', case when found_count = 0 and list_reply.cursor is null
            then jsonb_build_array(format('nothing found for agent %s of user %s', list_reply.agent_id, list_reply.user_id))
            else '[]' end,
        'next_cursor', case when shown < found_count or found_count = list_reply.max_results then next_cursor end);
end;
$$;
comment on function memory.list_reply(text, text, text[], text[], integer, text, text, text) is
'memory.list as one reply: {memories, searched, notes, next_cursor}, under the token limit of a reply.';
