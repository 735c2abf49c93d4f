-- A text in pieces: which words memory.time_words knows, what a number can be, and which of the words
-- that can also be something else (may, second, sat) are times here.

create or replace function memory._time_pieces(
    input text,
    out kinds text[], out ns integer[], out units text[],
    out starts integer[], out ends integer[], out raws text[], out unknown integer)
language sql stable parallel safe
as $$
    -- every character belongs to one piece, so lengths add up to positions
    with pieces as materialized (
        select
            p.m[1] as piece,
            p.i,
            (sum(length(p.m[1])) over (order by p.i))::integer as until,
            string_agg(p.m[1], '') over (order by p.i rows between current row and 10 following) as ahead
        from regexp_matches(_time_pieces.input,
            '[a-z]+(?![a-z0-9_])|[^a-z0-9_\s]|\s+'
            '|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)|\d{1,2}[-/]\d{1,2}[-/]\d{4}(?!\d)|\d{1,2}/\d{1,2}/\d{2}(?!\d)|\d{1,2}-\d{1,2}-\d{2}(?!\d)'
            '|\d{4}[-/.]\d{1,2}(?!\d)|(?:0?[1-9]|1[0-2])[-/]\d{4}(?!\d)|\d{1,2}/\d{1,2}(?!\d)|\d{1,2}:\d{2}(?::\d{2})?|\d+[.,]\d+'
            '|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec|cy)(?=\d)|(?!(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec|cy)\d)[a-z0-9_]+', 'g') with ordinality as p (m, i)
    ),
    found as (
        -- the longest word that begins with the piece
        select distinct on (pieces.i)
            pieces.i,
            pieces.piece,
            pieces.until - length(pieces.piece) + 1 as start,
            pieces.until + coalesce(length(t.word) - length(pieces.piece), 0) as until,
            case
                when t.kind is not null then t.kind
                when strpos('〇零一二三四五六七八九十百千两廿卅', pieces.piece) > 0 then 'han'
                when strpos('0123456789', left(pieces.piece, 1)) = 0 then '?'
                -- "1999 tests": a number of things, not a year
                when length(pieces.piece) = 4
                    and pieces.ahead ~ '^\d+ (?!(?:is|was|has|does|this|as|us|its|his|vs|sales|always)\M)[a-z]+s\M' then '?'
                else '#'
            end as kind,
            t.value,
            t.unit
        from pieces
            left join memory.time_words as t on t.head = pieces.piece
                and (t.word = pieces.piece
                    or starts_with(pieces.ahead, t.word)
                        and (t.word !~ '[a-z0-9]$' or substr(pieces.ahead, length(t.word) + 1, 1) !~ '[a-z0-9]'))
        where pieces.piece !~ '^\s'
        order by pieces.i, length(t.word) desc nulls last
    ),
    kept as (
        select found.*, lag(found.kind) over (order by found.i) as before
        from found
    )
    select
        array_agg(kept.kind order by kept.i),
        array_agg(kept.value order by kept.i),
        array_agg(kept.unit order by kept.i),
        array_agg(kept.start order by kept.i),
        array_agg(kept.until order by kept.i),
        array_agg(kept.piece order by kept.i),
        (select (count(*) filter (where found.piece ~ '^[a-z0-9_]{4}') + count(*) filter (where found.piece ~ '^[^ -~]') / 3)::integer
            from found where found.kind = '?')
    from kept
    where kept.kind <> '?' or kept.before <> '?' or kept.before is null
$$;
comment on function memory._time_pieces(text) is
'The words of a text that memory.time_words knows, and its numbers, with their positions; runs of what is unknown are ?. unknown: about how many words.';

create or replace function memory._time_number(raw text, now_at timestamp, out kind text, out n integer, out unit text, out day timestamp)
language plpgsql immutable parallel safe
as $$
declare
    part text[];
begin
    if raw ~ '^\d+$' then
        if length(raw) <= 4 then
            n := raw::integer;
            kind := case when length(raw) = 4 and n between 1000 and 2999 then 'Y' else 'N' end;
        elsif length(raw) = 8 and raw ~ '^(19|20)' then
            day := memory._time_date(left(raw, 4)::integer, substr(raw, 5, 2)::integer, right(raw, 2)::integer);
            kind := case when day is null then '?' else 'day' end;
        end if;
    elsif raw ~ '^\d{1,2}:\d\d' then
        part := string_to_array(raw, ':');
        n := part[1]::integer * 60 + part[2]::integer;
        kind := case when n < 1440 and part[2]::integer < 60 then 'T' end;
        unit := 'minute';
    elsif raw ~ '^\d{4}[-/.]\d{1,2}[-/.]\d{1,2}$' then
        part := regexp_split_to_array(raw, '[-/.]');
        day := memory._time_date(part[1]::integer, part[2]::integer, part[3]::integer);
        kind := 'day';
    elsif raw ~ '^\d{1,2}[-/]\d{1,2}[-/]\d{2,4}$' then
        part := regexp_split_to_array(raw, '[-/]');
        n := part[3]::integer;
        n := case when length(part[3]) = 4 then n else memory._time_year(n, now_at) end;
        -- month first, as in the sources, unless it cannot be
        day := coalesce(memory._time_date(n, part[1]::integer, part[2]::integer), memory._time_date(n, part[2]::integer, part[1]::integer));
        kind := 'day';
    elsif raw ~ '^\d{4}[-/.]\d{1,2}$' then
        part := regexp_split_to_array(raw, '[-/.]');
        day := memory._time_date(part[1]::integer, part[2]::integer, 1);
        kind := 'month';
        unit := 'numeric';
    elsif raw ~ '^\d{1,2}[-/]\d{4}$' then
        part := regexp_split_to_array(raw, '[-/]');
        day := memory._time_date(part[2]::integer, part[1]::integer, 1);
        kind := 'month';
    elsif raw ~ '^\d{1,2}/\d{1,2}$' then
        part := string_to_array(raw, '/');
        kind := 'MD';
        n := part[1]::integer;
        unit := part[2];
        if n > 12 then
            n := part[2]::integer;
            unit := part[1];
        end if;
    elsif raw ~ '^\d{1,2}(st|nd|rd|th)$' then
        kind := 'O';
        n := regexp_replace(raw, '\D', '', 'g')::integer;
    elsif raw ~ '^\d{1,2}(am?|pm?)$' then
        kind := 'T';
        n := regexp_replace(raw, '\D', '', 'g')::integer % 12 * 60 + case when raw ~ 'p' then 720 else 0 end;
        unit := 'hour';
    elsif raw ~ '^\d{2}(\d{2})?q[1-4]$' then
        kind := 'quarter';
        n := split_part(raw, 'q', 1)::integer;
        n := case when n < 100 then 2000 + n else n end;
        day := memory._time_date(n, right(raw, 1)::integer * 3 - 2, 1);
    elsif raw ~ '^(\d\d)?\d0s$' then
        kind := 'decade';
        n := left(raw, -1)::integer;
        day := memory._time_date(case when n < 30 then 2000 + n when n < 100 then 1900 + n else n end, 1, 1);
    end if;
    kind := case when day is null and kind in ('day', 'month', 'quarter', 'decade') then null else kind end;
    kind := coalesce(kind, '?');
end;
$$;
comment on function memory._time_number(text, timestamp) is
'What a piece that begins with a digit can be: N, Y (a year), O (ordinal), T (clock), MD (month/day), or a day, month, quarter or decade.';

create or replace function memory._pick(parts anyarray, start integer, arguments integer[])
returns anyarray
language sql immutable parallel safe
as $$ select array(select parts[start + a - 1] from unnest(arguments) with ordinality as u (a, i) order by u.i) $$;
comment on function memory._pick(anyarray, integer, integer[]) is
'Elements of an array by position, counted from a start; null where there is none (99).';

create or replace function memory._time_settle(kinds text[], ahead boolean)
returns text[]
language plpgsql immutable parallel safe
as $$
declare
    settled text[] := kinds;
    size constant integer := cardinality(kinds);
    k text; before text; after text; after2 text;
    -- what a time follows
    leads constant text[] := '{in,on,at,by,from,between,until,before,after,since,R,Rp,U,B,S,W,Wx,every,N,O,Ox,Y,N,Q,P,T,/}';
begin
    for i in 1 .. size loop
        k := settled[i]; before := settled[i - 1]; after := settled[i + 1]; after2 := settled[i + 2];
        continue when right(k, 1) <> 'x' and k not in ('Y', 'MD', 'a', 'Nt');
        settled[i] := case k
            when 'Mx' then case
                when before = any (leads) or ahead and before = 'for' or after in ('N', 'O', 'Nt', 'Y', '/') or before = '^' and after = '$'
                    or before in ('to', 'and') and (settled[i - 2] in ('M', 'S', 'N', 'Y', 'O', 'Yr'))
                    or after = 'Ox' or after in ('to', 'and') and after2 in ('M', 'Mx') and before = '^'
                    or after = 'to' and after2 in ('M', 'Mx') or before = 'to' and after = 'to' and after2 = 'N' then 'M' else 'X' end
            when 'Wx' then case
                when before in ('in', 'on', 'by', 'from', 'until', 'before', 'after', 'since', 'R', 'Rp', 'every', 'N', 'O', 'S', 'to') and not (before = 'to' and i = 2)
                    or after in ('N', 'O', 'M', 'MD', 'P', 'T', 'S') or after = 'Mx' or before = '^' and after = '$' then 'W' else 'X' end
            when 'Qx' then case
                when before in ('in', 'R', 'Rp', 'S', 'since', 'until', 'before', 'after', 'B') or after in ('Y') or before = '^' and after = '$' then 'Q' else 'X' end
            when 'Ox' then case
                when after in ('M', 'Mx', 'W', 'U', 'Q', 'R', 'H', 'to', 'until', 'and') or after = 'N' and after2 = 'U' or before in ('M', 'Nt', 'to', 'and', 'until') then 'O' else 'X' end
            when 'a' then case when after in ('U', 'Ws', 'Dur') then 'N' else 'a' end
            when 'Nt' then case when after in ('N', 'O', 'Ox') then 'Nt' else 'N' end
            when 'MD' then case
                when after = 'to' and after2 in ('S', 'MD') or before in ('on', 'by', 'from', 'between', 'until', 'before', 'after', 'since', 'W', 'R', 'S')
                    or before = '^' and after in ('$', 'to', 'at', 'T') or before in ('to', 'and') and settled[i - 2] in ('Md', 'S', 'M') then 'Md' else 'X' end
            when 'Y' then case
                when before = '^' and after = '$'
                    or before in ('in', 'by', 'from', 'between', 'until', 'before', 'after', 'since', 'B', 'R') and coalesce(after, '') not in ('M', 'Mx', '/', 'N', 'Nian')
                    or before in ('U', 'W') and settled[i - 2] in ('R', 'O', 'N') then 'Yr' else 'Y' end
            else k end;
    end loop;
    return settled;
end;
$$;
comment on function memory._time_settle(text[], boolean) is
'Decides the words that can be something else (may, march, sat, second, a bare year) by what stands beside them; X: no time.';
