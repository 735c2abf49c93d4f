-- The tables that hold data. This file runs once per database and is frozen by checksum once
-- released; whatever holds no data (functions, policies, grants, comments) is in NN_*.sql beside it
-- and replaced at every install.
--
-- Every table with user data is hash-partitioned or keyed by user_id first, so that a tenant's rows
-- lie together, policies prune to one partition, and the shape can be distributed by user_id.

-- Tunables. A row per setting; value null means the default.
create table memory.settings (
    name text primary key,
    value jsonb,
    default_value jsonb,
    unit text not null default '',
    meaning text not null
);

create table memory.memory_types (
    name text primary key,
    meaning text not null,
    half_life_days real not null
        constraint half_life_is_positive check (half_life_days > 0),
    retention_days real
        constraint retention_is_positive check (retention_days > 0),
    protected boolean not null default false,
    named_by text[] not null default '{}'
);

-- What a search or list is limited to. places: those alone are looked at, null for all. events_only:
-- the window holds what speaks of it, not what was said in it.
create type memory.filters as (
    memory_types text[],
    tags text[],
    since timestamptz,
    until timestamptz,
    min_confidence real,
    places bigint[],
    events_only boolean,
    as_of timestamptz
);

-- What a query says beside its words.
create type memory.reading as (
    query text,
    filters memory.filters,
    notes text[],
    matched text,
    window_from timestamptz,
    window_to timestamptz
);

create table memory.sources (
    name text primary key,
    meaning text not null,
    default_confidence real not null
        constraint default_confidence_is_a_share check (default_confidence between 0 and 1),
    maximum_confidence real not null
        constraint maximum_confidence_is_a_share check (maximum_confidence between 0 and 1),
    trust real not null
        constraint trust_is_a_share check (trust between 0 and 1)
);

-- What a text is worth (memory.value_of), and which kinds of answer it may hold.
create table memory.value_rules (
    name text primary key,
    pattern text not null,
    weight real not null,
    at_most integer not null
        constraint counted_at_least_once check (at_most > 0),
    meaning text not null
);

create table memory.answer_kinds (
    name text primary key,
    query_pattern text not null,
    content_pattern text not null,
    boost real not null,
    meaning text not null
);

create table memory.users (
    user_id text primary key,
    time_zone text not null default 'UTC',
    language text,
    created_at timestamptz not null default now()
);

-- Bearer tokens: only digests. token_id is a name to revoke by, not a secret.
create table memory.access_tokens (
    user_id text not null,
    token_id uuid not null default gen_random_uuid(),
    agent_id text not null,
    digest bytea not null,
    share_by_default boolean not null default false,
    created_at timestamptz not null default now(),
    revoked_at timestamptz,
    primary key (user_id, token_id)
);
create unique index access_tokens_digest on memory.access_tokens (digest, user_id);

-- Conversations number the places of their turns (see memories.place).
create sequence memory.conversation_numbers as bigint;
create table memory.conversations (
    user_id text not null,
    agent_id text not null,
    conversation_id text not null,
    number bigint not null,
    turns integer not null,
    primary key (user_id, agent_id, conversation_id)
);

create table memory.memories (
    user_id text not null,
    id uuid not null,
    agent_id text not null,
    content text not null,
    memory_type text not null,
    source text not null,
    tags text[] not null default '{}',
    confidence real not null
        constraint confidence_is_a_share check (confidence between 0 and 1),
    confirmed_at timestamptz,
    shared boolean not null default false,
    conversation_id text,
    occurred_at timestamptz not null,
    event_from timestamptz,
    event_to timestamptz,
    metadata jsonb not null default '{}',
    valid_from timestamptz not null,
    valid_to timestamptz,
    superseded_by uuid,
    state text not null default 'active'
        constraint state_is_known
        check (state in ('active', 'superseded', 'archived', 'forgotten')),
    content_hash bytea not null,
    place bigint not null,
    value real not null default 0,
    speaker text,
    answers text[] not null default '{}',
    version integer not null default 1,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    keywords tsvector not null,
    embedding halfvec,
    constraint memories_pkey primary key (user_id, id),
    constraint validity_is_an_interval check (valid_to is null or valid_to >= valid_from),
    constraint event_is_an_interval check (event_to is null or event_to >= event_from)
) partition by hash (user_id);

-- exactly once: the same text of the same agent is one active row
create unique index memories_same_content on memory.memories (user_id, agent_id, content_hash)
    where state = 'active';
create unique index memories_place on memory.memories (user_id, place);
create index memories_occurred_at on memory.memories (user_id, occurred_at desc, id desc);

-- The inverted index: one row per word of an active memory.
create table memory.words (
    user_id text not null,
    word text not null,
    place bigint not null,
    weight real not null,
    agent_id text not null,
    constraint words_pkey primary key (user_id, word, place) include (weight, agent_id)
) partition by hash (user_id);
create index words_place on memory.words (user_id, place);

-- What changes often stands apart from the rows with vectors.
create table memory.usage (
    user_id text not null,
    memory_id uuid not null,
    uses integer not null default 0,
    last_used_at timestamptz not null,
    primary key (user_id, memory_id)
);

-- Retries: an idempotency key names the memory that its first request made.
create table memory.requests (
    user_id text not null,
    agent_id text not null,
    idempotency_key text not null,
    content_hash bytea not null,
    memory_id uuid,
    created_at timestamptz not null default now(),
    primary key (user_id, agent_id, idempotency_key)
);

-- Memories that still need a vector; leased by workers.
create table memory.embedding_queue (
    user_id text not null,
    memory_id uuid not null,
    attempts integer not null default 0,
    not_before timestamptz not null default now(),
    last_error text,
    primary key (user_id, memory_id)
);
create index embedding_queue_not_before on memory.embedding_queue (not_before);

-- The model whose vectors are stored. One row.
create table memory.embedding_model (
    only_row boolean primary key default true
        constraint one_model_at_a_time check (only_row),
    name text not null,
    dimensions integer not null
        constraint dimensions_fit_the_index check (dimensions between 1 and 4000),
    chosen_at timestamptz not null default now()
);

-- The number of partitions is fixed here, once: by the setting memory.partitions of the installing
-- session, 16 by default.
do $$
declare
    partitions integer := coalesce(nullif(current_setting('memory.partitions', true), ''), '16')::integer;
    parent text;
begin
    if partitions not between 1 and 1024 then
        raise exception 'memory.partitions is % and must be between 1 and 1024', partitions;
    end if;
    foreach parent in array array['memories', 'words'] loop
        for i in 0..partitions - 1 loop
            execute format(
                'create table memory.%I partition of memory.%I for values with (modulus %s, remainder %s)',
                parent || '_' || i, parent, partitions, i);
        end loop;
    end loop;
end;
$$;
