-- Identity. Every public function that touches memories takes user_id and agent_id first and sets
-- them for the transaction before it touches a row; the policies read them. The old identity is put
-- back before the function returns, so the rest of a caller's transaction does not keep it.

create or replace function memory._fail(code text, message text, hint text)
returns void
language plpgsql immutable
as $$
begin
    raise exception '%', _fail.message using errcode = _fail.code, hint = _fail.hint;
end;
$$;
comment on function memory._fail(text, text, text) is
'Raises an error of memphant: a code of class MP (sql/README.md lists them), a message, what to do.';

create or replace function memory._check_name(what text, name text)
returns void
language plpgsql stable
as $$
begin
    if _check_name.name is null or btrim(_check_name.name) = '' then
        perform memory._fail('MP001', format('%s is missing', _check_name.what),
            format('Pass a %s that is not empty.', _check_name.what));
    end if;
    if length(_check_name.name) > memory._number('limits.identity') then
        perform memory._fail('MP005',
            format('%s is longer than %s characters', _check_name.what, memory._number('limits.identity')),
            'Use a shorter one.');
    end if;
end;
$$;
comment on function memory._check_name(text, text) is
'Refuses a missing or too long user_id, agent_id, conversation_id or idempotency_key.';

create or replace function memory._enter(user_id text, agent_id text)
returns text[]
language plpgsql stable
as $$
declare
    previous text[] := array[
        coalesce(current_setting('memory.user_id', true), ''),
        coalesce(current_setting('memory.agent_id', true), '')];
begin
    perform memory._check_name('user_id', _enter.user_id);
    perform memory._check_name('agent_id', _enter.agent_id);
    if _enter.agent_id = '*' then
        perform memory._fail('MP005', 'an agent cannot be called *',
            '* stands for all agents of a user; choose another agent_id.');
    end if;
    perform set_config('memory.user_id', _enter.user_id, true);
    perform set_config('memory.agent_id', _enter.agent_id, true);
    return previous;
end;
$$;
comment on function memory._enter(text, text) is
'Sets the identity for this transaction and returns the one before, for memory._leave.';

create or replace function memory._enter_known(user_id text, agent_id text)
returns text[]
language plpgsql stable
as $$
declare
    previous text[] := memory._enter(_enter_known.user_id, _enter_known.agent_id);
begin
    if not exists (select from memory.users as u where u.user_id = _enter_known.user_id) then
        perform memory._leave(previous);
        perform memory._fail('MP002', format('unknown user %L', _enter_known.user_id),
            'Check the spelling. A user exists after `memphant token create` or a first save.');
    end if;
    return previous;
end;
$$;
comment on function memory._enter_known(text, text) is
'memory._enter for reads: a user that does not exist is an error that names it, and is not created.';

create or replace function memory._enter_writing(user_id text, agent_id text)
returns text[]
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    previous text[] := memory._enter(_enter_writing.user_id, _enter_writing.agent_id);
begin
    if not exists (select from memory.users as u where u.user_id = _enter_writing.user_id) then
        insert into memory.users (user_id)
        values (_enter_writing.user_id)
        on conflict (user_id) do nothing;
    end if;
    return previous;
end;
$$;
comment on function memory._enter_writing(text, text) is
'memory._enter for saves: the user is created by its first save.';

create or replace function memory._leave(previous text[])
returns void
language plpgsql stable
as $$
begin
    perform set_config('memory.user_id', _leave.previous[1], true);
    perform set_config('memory.agent_id', _leave.previous[2], true);
end;
$$;
comment on function memory._leave(text[]) is 'Puts back the identity that memory._enter returned.';

create or replace function memory._new_id()
returns uuid
language sql volatile parallel safe
return encode(
    overlay(
        overlay(
            uuid_send(gen_random_uuid())
            placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
            from 1 for 6)
        placing set_byte('\x00', 0,
            (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112)
        from 7 for 1),
    'hex')::uuid;
comment on function memory._new_id() is
'A time-ordered id (UUID version 7, RFC 9562: 48 bits of milliseconds, then random bits).';

create or replace function memory.set_user(
    user_id text,
    agent_id text,
    time_zone text default null,
    language text default null
)
returns memory.users
language plpgsql volatile
set search_path from current
as $$
#variable_conflict use_column
declare
    previous text[] := memory._enter_writing(set_user.user_id, set_user.agent_id);
    result memory.users;
begin
    if set_user.time_zone is not null then
        perform memory._check_time_zone(set_user.time_zone);
    end if;
    update memory.users as u
    set time_zone = coalesce(set_user.time_zone, u.time_zone),
        language = coalesce(set_user.language, u.language)
    where u.user_id = set_user.user_id
    returning u.user_id, u.time_zone, u.language, u.created_at into result;
    perform memory._leave(previous);
    return result;
end;
$$;
comment on function memory.set_user(text, text, text, text) is
'Creates a user or changes its time zone (an IANA name) and usual language. What is null stays.';

create or replace function memory._check_time_zone(time_zone text)
returns void
language plpgsql stable
as $$
begin
    perform now() at time zone _check_time_zone.time_zone;
exception when invalid_parameter_value then
    perform memory._fail('MP005', format('unknown time zone %L', _check_time_zone.time_zone),
        'Use an IANA name such as Europe/Berlin or Asia/Shanghai.');
end;
$$;
comment on function memory._check_time_zone(text) is 'Refuses a time zone that Postgres does not know.';
