-- Changing and forgetting. Both touch own rows only: a shared row of another agent is read-only, and
-- what is private to another agent does not exist.

create or replace function memory._own(
    user_id text, agent_id text, memory_id uuid, forgotten_too boolean default false)
returns memory.memories
language plpgsql volatile
set search_path from current
as $$
declare
    found_row memory.memories;
begin
    select m.* into found_row
    from memory.memories as m
    where m.user_id = _own.user_id and m.id = _own.memory_id and m.agent_id = _own.agent_id
        and (_own.forgotten_too or m.state <> 'forgotten')
    for no key update;
    if not found then
        select m.agent_id into found_row.agent_id
        from memory.memories as m
        where m.user_id = _own.user_id and m.id = _own.memory_id and m.shared and m.state <> 'forgotten';
        if found then
            perform memory._fail('MP004', format('read-only, owned by agent %s', found_row.agent_id),
                'Save a memory of your own instead.');
        end if;
        perform memory._not_found(_own.memory_id);
    end if;
    return found_row;
end;
$$;
comment on function memory._own(text, text, uuid, boolean) is
'Locks and returns an own memory; an error for a shared one of another agent, the usual "no memory" for everything else.';

create or replace function memory.update(
    user_id text,
    agent_id text,
    memory_id uuid,
    content text default null,
    memory_type text default null,
    tags text[] default null,
    confidence double precision default null,
    confirmed boolean default null,
    shared boolean default null,
    occurred_at text default null,
    metadata jsonb default null,
    embedding halfvec default null
)
returns jsonb
language plpgsql volatile
set search_path from current
as $$
#variable_conflict use_column
declare
    previous text[] := memory._enter_known(update.user_id, update.agent_id);
    m memory.memories;
    ceiling real;
    new_text boolean;
begin
    m := memory._own(update.user_id, update.agent_id, update.memory_id);
    new_text := update.content is not null and update.content <> m.content;
    if update.content is not null then
        perform memory._check_content(update.content);
    end if;
    if update.memory_type is not null then
        perform memory._check_types(array[update.memory_type]);
    end if;
    if update.metadata is not null then
        perform memory._check_metadata(update.metadata);
    end if;
    perform memory._check_embedding(update.embedding);
    if num_nonnulls(update.content, update.memory_type, update.tags, update.confidence, update.confirmed, update.shared,
        update.occurred_at, update.metadata) = 0 then
        perform memory._fail('MP005', 'there is nothing to change', 'Name what is to be corrected, such as content.');
    end if;
    select s.maximum_confidence into ceiling from memory.sources as s where s.name = m.source;
    if update.confidence is not null and (update.confidence = 'NaN' or update.confidence not between 0 and 1) then
        perform memory._fail('MP005', 'confidence is not between 0 and 1', 'Pass a share such as 0.8.');
    end if;

    m.occurred_at := coalesce(
        memory._timestamp('occurred_at', update.occurred_at, memory._zone(update.user_id)), m.occurred_at);
    if new_text or update.occurred_at is not null then
        select t.event_from, t.event_to into m.event_from, m.event_to
        from memory.event_time(coalesce(update.content, m.content), m.occurred_at, memory._zone(update.user_id)) as t;
    end if;
    if new_text then
        m.content := update.content;
        m.content_hash := memory._content_hash(update.content);
        m.keywords := memory._keywords(memory.indexed_text(update.content));
        m.value := memory.value_of(update.content);
        m.speaker := memory._speaker(update.content);
        m.answers := memory._answers(update.content);
        m.embedding := update.embedding;
    end if;
    begin
        update memory.memories as t
        set content = m.content,
            content_hash = m.content_hash,
            keywords = m.keywords,
            value = m.value,
            speaker = m.speaker,
            answers = m.answers,
            embedding = m.embedding,
            memory_type = coalesce(update.memory_type, m.memory_type),
            tags = case when update.tags is null then m.tags else memory._check_tags(update.tags) end,
            confidence = case
                when update.confidence is null then m.confidence else least(update.confidence, ceiling) end,
            confirmed_at = case update.confirmed
                when true then memory._now() when false then null else m.confirmed_at end,
            shared = coalesce(update.shared, m.shared),
            occurred_at = m.occurred_at,
            valid_from = case when t.valid_from = t.occurred_at and t.valid_to is null then m.occurred_at else t.valid_from end,
            event_from = m.event_from,
            event_to = m.event_to,
            metadata = coalesce(update.metadata, m.metadata)
        where t.user_id = update.user_id and t.id = m.id;
    exception when unique_violation then
        perform memory._fail('MP011', 'another memory of this agent says the same',
            'Forget one of the two, or save the text again to reinforce it.');
    end;
    if new_text and m.embedding is null then
        insert into memory.embedding_queue as q (user_id, memory_id)
        values (update.user_id, m.id)
        on conflict (user_id, memory_id) do update
        set not_before = memory._now(), attempts = 0, last_error = null;
    end if;
    select memory._as_json(t) into update.metadata
    from memory.memories as t where t.user_id = update.user_id and t.id = m.id;
    perform memory._leave(previous);
    return update.metadata;
end;
$$;
comment on function memory.update(
    text, text, uuid, text, text, text[], double precision, boolean, boolean, text, jsonb, halfvec) is
'Corrects an own memory. What is null stays; metadata and tags given replace the old ones. A changed text without a vector is '
'found by keywords until the worker has embedded it. Returns the stored state.';

create or replace function memory.forget(
    user_id text,
    agent_id text,
    memory_id uuid default null,
    days_older_than double precision default null,
    memory_types text[] default null,
    tags text[] default null,
    below_confidence double precision default null,
    dry_run boolean default false,
    purge boolean default false
)
returns table (id uuid, content text, memory_type text, occurred_at timestamptz)
language plpgsql volatile
set search_path from current
as $$
#variable_conflict use_column
declare
    previous text[] := memory._enter_known(forget.user_id, forget.agent_id);
    bulk boolean := forget.days_older_than is not null or forget.memory_types is not null
        or forget.tags is not null or forget.below_confidence is not null;
    ids uuid[];
begin
    if (forget.memory_id is not null) = bulk then
        perform memory._fail('MP010', 'say which memories: one memory_id, or one condition at least',
            'Pass memory_id alone, or days_older_than, memory_type, tags, below_confidence.');
    end if;
    if forget.days_older_than < 0 then
        perform memory._fail('MP005', 'days_older_than is negative', 'Pass a number of days.');
    end if;
    if forget.tags = '{}' or forget.memory_types = '{}' then
        perform memory._fail('MP010', 'an empty list is no condition', 'Name a tag or a type, or leave it out.');
    end if;
    perform memory._check_types(forget.memory_types);
    if forget.memory_id is not null then
        perform memory._own(forget.user_id, forget.agent_id, forget.memory_id, forgotten_too => forget.purge);
        ids := array[forget.memory_id];
    else
        -- protection of a type beats every other condition
        ids := array(
            select m.id
            from memory.memories as m
            join memory.memory_types as t on t.name = m.memory_type
            where m.user_id = forget.user_id and m.agent_id = forget.agent_id
                and (m.state = 'active' or forget.purge and m.state = 'forgotten')
                and (forget.memory_types is null and not t.protected or m.memory_type = any (forget.memory_types))
                and (forget.tags is null or m.tags @> forget.tags)
                and (forget.below_confidence is null or m.confidence < forget.below_confidence::real)
                and (forget.days_older_than is null
                    or m.occurred_at < memory._now() - forget.days_older_than * interval '1 day')
            -- the order in which saves lock them
            order by m.content_hash, m.id
            for no key update of m);
    end if;
    return query
    select m.id, m.content, m.memory_type, m.occurred_at
    from memory.memories as m
    where m.user_id = forget.user_id and m.id = any (ids)
    order by m.occurred_at desc, m.id desc;
    if forget.dry_run then
        perform memory._leave(previous);
        return;
    end if;
    delete from memory.embedding_queue as q
    where q.user_id = forget.user_id and q.memory_id = any (ids);
    if forget.purge then
        delete from memory.versions as v where v.user_id = forget.user_id and v.memory_id = any (ids);
        delete from memory.usage as u where u.user_id = forget.user_id and u.memory_id = any (ids);
        delete from memory.requests as q where q.user_id = forget.user_id and q.memory_id = any (ids);
        delete from memory.memories as m where m.user_id = forget.user_id and m.id = any (ids);
    else
        update memory.memories as m
        set state = 'forgotten'
        where m.user_id = forget.user_id and m.id = any (ids);
    end if;
    perform memory._leave(previous);
end;
$$;
comment on function memory.forget(
    text, text, uuid, double precision, text[], text[], double precision, boolean, boolean) is
'Forgets one own memory, or those that meet every condition; protected types only where memory_types names them. '
'Forgotten memories can be restored until the grace period (retention.forgotten_days) ends. dry_run only shows what would go; '
'purge removes for good, history too, what was forgotten before as well.';

create or replace function memory.forget_reply(
    user_id text,
    agent_id text,
    memory_id uuid default null,
    days_older_than double precision default null,
    memory_types text[] default null,
    tags text[] default null,
    below_confidence double precision default null,
    dry_run boolean default false,
    purge boolean default false
)
returns jsonb
language plpgsql volatile
set search_path from current
as $$
#variable_conflict use_column
declare
    result jsonb;
begin
    select jsonb_build_object(
        'forgotten', case when forget_reply.dry_run then 0 else count(*) end,
        'would_forget', case when forget_reply.dry_run then count(*) else 0 end,
        'memories', coalesce(jsonb_agg(jsonb_build_object(
            'id', f.id, 'memory_type', f.memory_type, 'content', left(f.content, 200))) filter (where f.n <= 20), '[]'),
        'notes', case
            when count(*) > 20 then jsonb_build_array('the first 20 are shown')
            when count(*) = 0 then jsonb_build_array('no own memory meets the conditions')
            else '[]'::jsonb end)
    into result
    from (
        select g.id, g.memory_type, g.content, row_number() over () as n
        from memory.forget(
            user_id => forget_reply.user_id, agent_id => forget_reply.agent_id, memory_id => forget_reply.memory_id,
            days_older_than => forget_reply.days_older_than, memory_types => forget_reply.memory_types,
            tags => forget_reply.tags, below_confidence => forget_reply.below_confidence,
            dry_run => forget_reply.dry_run, purge => forget_reply.purge) as g) as f;
    return result;
end;
$$;
comment on function memory.forget_reply(
    text, text, uuid, double precision, text[], text[], double precision, boolean, boolean) is
'memory.forget as one reply: {forgotten, would_forget, memories (the first 20), notes}.';
