-- Who may do what. Row-level security is enabled and forced on every table with user data; the server
-- is an ordinary role. The user's equality stands alone at the top of a policy, so partitions are
-- pruned, and a statement without a where clause finds nothing of anybody else.

do $$
declare
    t regclass;
begin
    for t in
        select c.oid::regclass
        from pg_class as c
        where c.relnamespace = 'memory'::regnamespace and c.relkind in ('r', 'p')
            -- the other tables hold no user data
            and exists (
                select from pg_attribute as a
                where a.attrelid = c.oid and a.attname = 'user_id' and not a.attisdropped)
    loop
        execute format('alter table %s enable row level security', t);
        execute format('alter table %s force row level security', t);
    end loop;
end;
$$;

-- Identity policies are for every role, the owner included: a managed database may allow only one.
drop policy if exists own_and_shared on memory.memories;
create policy own_and_shared on memory.memories for select
    using (
        user_id = current_setting('memory.user_id', true)
        and (agent_id = current_setting('memory.agent_id', true) or shared));
comment on policy own_and_shared on memory.memories is 'An agent sees its own memories and those shared by the user''s other agents.';
drop policy if exists insert_own on memory.memories;
create policy insert_own on memory.memories for insert
    with check (
        user_id = current_setting('memory.user_id', true)
        and agent_id = current_setting('memory.agent_id', true));
comment on policy insert_own on memory.memories is 'An agent saves as itself only.';
drop policy if exists update_own on memory.memories;
create policy update_own on memory.memories for update
    using (
        user_id = current_setting('memory.user_id', true)
        and agent_id = current_setting('memory.agent_id', true));
comment on policy update_own on memory.memories is 'An agent changes its own memories only, and cannot give them away.';
drop policy if exists delete_own on memory.memories;
create policy delete_own on memory.memories for delete
    using (
        user_id = current_setting('memory.user_id', true)
        and agent_id = current_setting('memory.agent_id', true));
comment on policy delete_own on memory.memories is 'An agent deletes its own memories only.';

drop policy if exists own_and_shared on memory.words;
create policy own_and_shared on memory.words
    using (
        user_id = current_setting('memory.user_id', true)
        and agent_id in (current_setting('memory.agent_id', true), '*'));
comment on policy own_and_shared on memory.words is 'Postings of own and shared (*) memories.';

drop policy if exists own on memory.users;
create policy own on memory.users using (user_id = current_setting('memory.user_id', true));
comment on policy own on memory.users is 'The user''s own row.';

drop policy if exists own on memory.conversations;
create policy own on memory.conversations
    using (
        user_id = current_setting('memory.user_id', true)
        and agent_id = current_setting('memory.agent_id', true));
comment on policy own on memory.conversations is 'Conversations of this agent.';

drop policy if exists own on memory.requests;
create policy own on memory.requests
    using (
        user_id = current_setting('memory.user_id', true)
        and agent_id = current_setting('memory.agent_id', true));
comment on policy own on memory.requests is 'Requests of this agent.';

drop policy if exists own on memory.embedding_queue;
create policy own on memory.embedding_queue using (user_id = current_setting('memory.user_id', true));
comment on policy own on memory.embedding_queue is 'The user''s memories that wait for a vector.';

drop policy if exists read_own on memory.usage;
create policy read_own on memory.usage for select using (user_id = current_setting('memory.user_id', true));
comment on policy read_own on memory.usage is 'Uses of the user''s memories.';
drop policy if exists insert_own on memory.usage;
create policy insert_own on memory.usage for insert
    with check (
        user_id = current_setting('memory.user_id', true)
        and exists (
            select from memory.memories as m
            where m.user_id = usage.user_id and m.id = usage.memory_id
                and m.agent_id = current_setting('memory.agent_id', true)));
comment on policy insert_own on memory.usage is 'An agent counts uses of its own memories; those of shared ones are recorded by maintenance.';
drop policy if exists update_own on memory.usage;
create policy update_own on memory.usage for update
    using (
        user_id = current_setting('memory.user_id', true)
        and exists (
            select from memory.memories as m
            where m.user_id = usage.user_id and m.id = usage.memory_id
                and m.agent_id = current_setting('memory.agent_id', true)));
comment on policy update_own on memory.usage is 'An agent counts uses of its own memories; those of shared ones are recorded by maintenance.';

-- A version is seen by whoever sees its memory: the subquery is under the policy of memories.
drop policy if exists as_the_memory on memory.versions;
create policy as_the_memory on memory.versions for select
    using (
        user_id = current_setting('memory.user_id', true)
        and exists (
            select from memory.memories as m
            where m.user_id = versions.user_id and m.id = versions.memory_id));
comment on policy as_the_memory on memory.versions is 'The history of a memory is seen by whoever sees the memory.';
drop policy if exists insert_own on memory.versions;
create policy insert_own on memory.versions for insert
    with check (
        user_id = current_setting('memory.user_id', true)
        and agent_id = current_setting('memory.agent_id', true));
comment on policy insert_own on memory.versions is 'Written with a change of an own memory.';
drop policy if exists delete_own on memory.versions;
create policy delete_own on memory.versions for delete
    using (
        user_id = current_setting('memory.user_id', true)
        and agent_id = current_setting('memory.agent_id', true));
comment on policy delete_own on memory.versions is 'Removed with an own memory that is purged.';

drop policy if exists delete_own on memory.usage;
create policy delete_own on memory.usage for delete
    using (
        user_id = current_setting('memory.user_id', true)
        and exists (
            select from memory.memories as m
            where m.user_id = usage.user_id and m.id = usage.memory_id
                and m.agent_id = current_setting('memory.agent_id', true)));
comment on policy delete_own on memory.usage is 'Removed with an own memory that is purged.';

-- memphant_dba reads everything but tokens; memphant_maintenance works across users
do $$
declare
    t text;
begin
    foreach t in array array[
        'memories', 'words', 'users', 'conversations', 'requests', 'embedding_queue', 'usage', 'versions', 'access_tokens']
    loop
        execute format('drop policy if exists maintenance on memory.%I', t);
        execute format('create policy maintenance on memory.%I to memphant_maintenance using (true)', t);
        execute format('comment on policy maintenance on memory.%I is %L', t,
            'Jobs that work across users, through the functions of 70_jobs.sql and 75_tokens.sql only.');
        continue when t = 'access_tokens';
        execute format('drop policy if exists dba on memory.%I', t);
        execute format('create policy dba on memory.%I for select to memphant_dba using (true)', t);
        execute format('comment on policy dba on memory.%I is %L', t, 'People in psql read everything.');
    end loop;
end;
$$;

-- Grants, stated whole at every install. Nothing on partitions, nothing to public.
revoke all on all tables in schema memory from public, memphant_server, memphant_dba, memphant_maintenance;
revoke all on all functions in schema memory from public, memphant_server, memphant_dba, memphant_maintenance;
grant usage on schema memory to memphant_server, memphant_dba, memphant_maintenance;

grant select on
    memory.migrations, memory.settings, memory.memory_types, memory.sources, memory.embedding_model,
    memory.value_rules, memory.answer_kinds, memory.time_words, memory.time_rules,
    memory.help, memory.overview
to memphant_server, memphant_dba, memphant_maintenance;
grant select, insert, update, delete on
    memory.memories, memory.words, memory.embedding_queue, memory.usage
to memphant_server, memphant_maintenance;
grant select, insert, update on
    memory.users, memory.conversations
to memphant_server;
grant select, insert, update, delete on memory.requests to memphant_server;
grant select, insert, delete on memory.versions to memphant_server;
grant select, insert, update, delete on
    memory.users, memory.conversations, memory.requests, memory.versions, memory.access_tokens
to memphant_maintenance;
grant select on
    memory.memories, memory.words, memory.users, memory.conversations, memory.requests, memory.embedding_queue,
    memory.usage, memory.versions
to memphant_dba;
grant usage on sequence memory.conversation_numbers to memphant_server, memphant_maintenance;

grant execute on all functions in schema memory to memphant_server, memphant_dba, memphant_maintenance;
-- what works across users is granted by name
revoke execute on function
    memory.authenticate(bytea), memory.tokens_required(), memory.create_token(text, text, bytea, boolean),
    memory.list_tokens(), memory.revoke_token(uuid), memory.adopt(text, text), memory.purge(boolean),
    memory.claim_unembedded(integer), memory.store_embedding(text, uuid, integer, halfvec),
    memory.postpone_embedding(text, uuid, double precision, text), memory.record_uses(jsonb),
    memory.use_model(text, integer), memory._any_embedding(), memory._overview(), memory._backlog()
from memphant_server, memphant_dba, memphant_maintenance;
grant execute on function
    memory.authenticate(bytea), memory.tokens_required(), memory.claim_unembedded(integer),
    memory.store_embedding(text, uuid, integer, halfvec),
    memory.postpone_embedding(text, uuid, double precision, text), memory.record_uses(jsonb),
    memory.purge(boolean), memory._overview(), memory._backlog()
to memphant_server;
grant execute on function
    memory.list_tokens(), memory.tokens_required(), memory.purge(boolean), memory._overview(), memory._backlog()
to memphant_dba;

-- The functions that work across users belong to memphant_maintenance, and the owner may call them.
grant create on schema memory to memphant_maintenance;
do $$
declare
    f regprocedure;
begin
    for f in
        select p.oid::regprocedure
        from pg_proc as p
        where p.pronamespace = 'memory'::regnamespace and p.prosecdef
    loop
        execute format('alter function %s owner to memphant_maintenance', f);
        -- afterwards: with the owner, the rights of the old one go to the new one
        execute format('grant execute on function %s to %I', f, current_user);
    end loop;
end;
$$;
revoke create on schema memory from memphant_maintenance;

-- The role of MEMPHANT_DATABASE_URL, where it is not the owner itself.
do $$
declare
    server_role text := nullif(current_setting('memory.server_role', true), '');
begin
    if server_role is not null and server_role <> current_user and not pg_has_role(server_role, 'memphant_server', 'usage') then
        execute format('grant memphant_server to %I', server_role);
    end if;
end;
$$;

-- `memphant psql` takes the role of a DBA when it is told to, and the owner does not have it otherwise.
-- Before PostgreSQL 16 these two could not be told apart.
do $$
begin
    if current_setting('server_version_num')::integer >= 160000 then
        execute 'grant memphant_dba to current_user with inherit false, set true';
    end if;
end;
$$;

-- From here on the owner does not see every row any more.
revoke memphant_maintenance from current_user;
