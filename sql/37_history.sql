-- History. Every change of a memory is versioned in the same transaction by a trigger, so that no path
-- of a change can miss it: who, when, how, and what it was before.

create or replace function memory._snapshot(m memory.memories)
returns jsonb
language sql stable parallel safe
as $$
    select jsonb_build_object(
        'content', m.content,
        'memory_type', m.memory_type,
        'source', m.source,
        'tags', to_jsonb(m.tags),
        'confidence', m.confidence,
        'confirmed_at', m.confirmed_at,
        'shared', m.shared,
        'conversation_id', m.conversation_id,
        'occurred_at', m.occurred_at,
        'event_from', m.event_from,
        'event_to', m.event_to,
        'metadata', m.metadata,
        'valid_from', m.valid_from,
        'valid_to', m.valid_to,
        'superseded_by', m.superseded_by,
        'state', m.state)
$$;
comment on function memory._snapshot(memory.memories) is
'What a version keeps of a memory: everything but what is computed from it (vector, keywords, hash, value) and its place.';

create or replace function memory._version()
returns trigger
language plpgsql volatile
set search_path from current
as $$
begin
    if memory._snapshot(old) = memory._snapshot(new) then
        -- a vector, a place, a new owner: nothing that was said has changed
        return new;
    end if;
    new.version := old.version + 1;
    new.updated_at := memory._now();
    insert into memory.versions (
        user_id, memory_id, version, agent_id, before, replaced_at, replaced_by, operation)
    values (
        new.user_id, new.id, old.version, new.agent_id, memory._snapshot(old), new.updated_at,
        coalesce(nullif(current_setting('memory.agent_id', true), ''), current_user),
        case
            when nullif(current_setting('memory.operation', true), '') is not null
                then current_setting('memory.operation', true)
            when new.state = 'forgotten' and old.state <> 'forgotten' then 'forget'
            when new.state = 'archived' and old.state <> 'archived' then 'archive'
            when new.state = 'superseded' and old.state <> 'superseded' then 'supersede'
            when new.state = 'active' and old.state in ('forgotten', 'archived') then 'restore'
            else 'update'
        end);
    return new;
end;
$$;
comment on function memory._version() is
'Counts the change of a memory and keeps what it was before.';

create or replace trigger memories_version
before update on memory.memories
for each row execute function memory._version();
comment on trigger memories_version on memory.memories is 'Keeps the history of every change.';

create or replace function memory.history(user_id text, agent_id text, memory_id uuid)
returns table (
    version integer, memory jsonb, replaced_at timestamptz, replaced_by text, operation text)
language plpgsql stable
set search_path from current
as $$
#variable_conflict use_column
declare
    previous text[] := memory._enter_known(history.user_id, history.agent_id);
begin
    if not exists (
        select from memory.memories as m
        where m.user_id = history.user_id and m.id = history.memory_id
            and (m.agent_id = history.agent_id or m.shared)) then
        perform memory._leave(previous);
        perform memory._not_found(history.memory_id);
    end if;
    return query
    select m.version, memory._snapshot(m), null::timestamptz, null::text, null::text
    from memory.memories as m
    where m.user_id = history.user_id and m.id = history.memory_id
    union all
    select v.version, v.before, v.replaced_at, v.replaced_by, v.operation
    from memory.versions as v
    where v.user_id = history.user_id and v.memory_id = history.memory_id
    order by 1 desc;
    perform memory._leave(previous);
end;
$$;
comment on function memory.history(text, text, uuid) is
'Every version of a memory, newest first: what it was, and when, by whom (an agent, or a role in psql) and how it was replaced. '
'Forgotten memories keep their history until they are purged.';

create or replace function memory._change(user_id text, agent_id text, memory_id uuid, operation text, before jsonb)
returns jsonb
language plpgsql volatile
set search_path from current
as $$
#variable_conflict use_column
declare
    m memory.memories;
    new_text boolean;
begin
    select t.* into m from memory.memories as t where t.user_id = _change.user_id and t.id = _change.memory_id;
    new_text := _change.before ->> 'content' <> m.content;
    perform set_config('memory.operation', _change.operation, true);
    begin
        update memory.memories as t
        set content = s.content,
            content_hash = memory._content_hash(s.content),
            keywords = memory._keywords(memory.indexed_text(s.content)),
            value = memory.value_of(s.content),
            speaker = memory._speaker(s.content),
            answers = memory._answers(s.content),
            embedding = case when new_text then null else t.embedding end,
            memory_type = s.memory_type,
            tags = s.tags,
            confidence = s.confidence,
            confirmed_at = s.confirmed_at,
            shared = s.shared,
            occurred_at = s.occurred_at,
            event_from = s.event_from,
            event_to = s.event_to,
            metadata = s.metadata,
            state = s.state
        from jsonb_populate_record(m, _change.before) as s
        where t.user_id = _change.user_id and t.id = _change.memory_id;
    exception when unique_violation then
        perform memory._fail('MP011', 'another memory of this agent says the same',
            'Forget one of the two, or save the text again to reinforce it.');
    end;
    perform set_config('memory.operation', '', true);
    insert into memory.embedding_queue as q (user_id, memory_id)
    select t.user_id, t.id
    from memory.memories as t
    where t.user_id = _change.user_id and t.id = _change.memory_id and t.embedding is null and t.state = 'active'
    on conflict (user_id, memory_id) do update
    set not_before = now(), attempts = 0, last_error = null;
    return (
        select memory._as_json(t)
        from memory.memories as t where t.user_id = _change.user_id and t.id = _change.memory_id);
end;
$$;
comment on function memory._change(text, text, uuid, text, jsonb) is
'Makes an own memory what a snapshot says, under the name of an operation, and returns the stored state.';

create or replace function memory.restore(user_id text, agent_id text, memory_id uuid)
returns jsonb
language plpgsql volatile
set search_path from current
as $$
declare
    previous text[] := memory._enter_known(restore.user_id, restore.agent_id);
    m memory.memories;
    result jsonb;
begin
    m := memory._own(restore.user_id, restore.agent_id, restore.memory_id, forgotten_too => true);
    if m.state not in ('forgotten', 'archived') then
        perform memory._fail('MP005', format('the memory is %s, there is nothing to restore', m.state),
            'Only forgotten and archived memories can be restored.');
    end if;
    result := memory._change(restore.user_id, restore.agent_id, restore.memory_id, 'restore',
        memory._snapshot(m) || '{"state": "active"}');
    perform memory._leave(previous);
    return result;
end;
$$;
comment on function memory.restore(text, text, uuid) is
'Brings back an own memory that was forgotten (within the grace period) or archived, and returns its stored state.';

create or replace function memory.revert(user_id text, agent_id text, memory_id uuid, version integer)
returns jsonb
language plpgsql volatile
set search_path from current
as $$
#variable_conflict use_column
declare
    previous text[] := memory._enter_known(revert.user_id, revert.agent_id);
    m memory.memories;
    before jsonb;
    result jsonb;
begin
    m := memory._own(revert.user_id, revert.agent_id, revert.memory_id);
    select v.before into before
    from memory.versions as v
    where v.user_id = revert.user_id and v.memory_id = revert.memory_id and v.version = revert.version;
    if not found then
        perform memory._fail('MP005', format('memory %s has no earlier version %s', revert.memory_id, revert.version),
            'Take one that its history shows.');
    end if;
    result := memory._change(revert.user_id, revert.agent_id, revert.memory_id, 'revert',
        before || jsonb_build_object('state', m.state));
    perform memory._leave(previous);
    return result;
end;
$$;
comment on function memory.revert(text, text, uuid, integer) is
'Makes an own memory what it was in an earlier version, as a new version. Its state and validity stay.';
