-- History: what a memory was before each change, written in the transaction of the change.

create table memory.versions (
    user_id text not null,
    memory_id uuid not null,
    version integer not null,
    agent_id text not null,
    before jsonb not null,
    replaced_at timestamptz not null,
    replaced_by text not null,
    operation text not null
        constraint operation_is_known
        check (operation in ('update', 'reinforce', 'forget', 'restore', 'revert', 'supersede', 'archive')),
    primary key (user_id, memory_id, version)
);
