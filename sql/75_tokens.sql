-- Bearer tokens. Only digests are stored, no role may read them, and these functions, which belong to
-- memphant_maintenance, are the only way to them.

create or replace function memory.authenticate(digest bytea)
returns table (user_id text, agent_id text, share_by_default boolean)
language sql stable security definer
set search_path from current
as $$
    select t.user_id, t.agent_id, t.share_by_default
    from memory.access_tokens as t
    where t.digest = $1 and t.revoked_at is null
$$;
comment on function memory.authenticate(bytea) is
'The principal of a token, by the SHA-256 of the token. No row: unknown or revoked.';

create or replace function memory.tokens_required()
returns boolean
language sql stable security definer
set search_path from current
as $$
    select exists (select from memory.access_tokens)
$$;
comment on function memory.tokens_required() is
'Whether any token was ever made, revoked ones included: from then on a server only serves bearers of tokens.';

create or replace function memory.create_token(user_id text, agent_id text, digest bytea, share_by_default boolean default false)
returns uuid
language plpgsql volatile security definer
set search_path from current
as $$
#variable_conflict use_column
declare
    previous text[] := memory._enter_writing(create_token.user_id, create_token.agent_id);
    result uuid;
begin
    if octet_length(create_token.digest) <> 32 then
        perform memory._fail('MP005', 'the digest is no SHA-256', 'Pass the 32 bytes of sha256(token).');
    end if;
    insert into memory.access_tokens as t (user_id, agent_id, digest, share_by_default)
    values (create_token.user_id, create_token.agent_id, create_token.digest, create_token.share_by_default)
    returning t.token_id into result;
    perform memory._leave(previous);
    return result;
end;
$$;
comment on function memory.create_token(text, text, bytea, boolean) is
'Records the digest of a new token for one agent of one user; the user is created. Returns the name to revoke it by.';

create or replace function memory.list_tokens()
returns table (token_id uuid, user_id text, agent_id text, share_by_default boolean, created_at timestamptz, revoked_at timestamptz)
language sql stable security definer
set search_path from current
as $$
    select t.token_id, t.user_id, t.agent_id, t.share_by_default, t.created_at, t.revoked_at
    from memory.access_tokens as t
    order by t.created_at, t.token_id
$$;
comment on function memory.list_tokens() is 'All tokens without their digests.';

create or replace function memory.revoke_token(token_id uuid)
returns boolean
language plpgsql volatile security definer
set search_path from current
as $$
#variable_conflict use_column
begin
    update memory.access_tokens as t
    set revoked_at = now()
    where t.token_id = revoke_token.token_id and t.revoked_at is null;
    return found;
end;
$$;
comment on function memory.revoke_token(uuid) is 'Revokes a token at once. False if it is unknown or was revoked before.';
