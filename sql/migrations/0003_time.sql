-- The time grammar as rows: words, what they mean, and how they stand together. No user data. What
-- ships is restated at every install where `shipped` is true; rows of a DBA are never touched.

create table memory.time_words (
    word text primary key
        constraint word_is_lower_case check (word = lower(word) and word <> ''),
    language text not null,
    kind text not null,
    value integer,
    unit text,
    shipped boolean not null default false,
    head text generated always as (substring(word from '^(?:[a-z0-9]+|.)')) stored
);
create index time_words_head on memory.time_words (head);

create table memory.time_rules (
    pattern text primary key,
    language text not null,
    level integer not null default 5,
    meaning text not null,
    arguments integer[] not null default '{}',
    parameter text,
    result text not null default 'S',
    shipped boolean not null default false
);
