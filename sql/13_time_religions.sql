-- Calendars of religions: the Islamic one, the Hebrew one, and Easter of the Orthodox churches. Days begin
-- with the evening before; where that belongs to the feast, the holiday's row begins a day early.

create or replace function memory._islamic_day(year integer, month integer, day integer)
returns timestamp
language plpgsql immutable parallel safe
as $$
declare
    -- Umm al-Qura, the calendar that is printed, for its years 1356 to 1500 (1937 to 2077), four hexadecimal
    -- digits a year: how many days later than in the tabular calendar it begins, plus 8; and a bit per
    -- month in order, the first lowest, set where it has 30 days and not 29
    years constant text :=
        '94d48d55864b84978d55855585558d5587558d55955585558d5586d595559ea59d2a9aaa9cd596559572'
        || '8da995559aaa8555852d8a6d855a8555874d8d539d5485568d5592d58d559d549d458655852d8a5d855a'
        || '8ad586aa8d4b952a7a5784ae8976856c8b558aaa8a5584ad795d82da85d98db29ba49b4a8a5582b57575'
        || '8b6a9bd29bc49b899a95852d85ad9b6a96d49dc99d929aa6995682ae856d936a8b559aaa894d849d895d'
        || '82ba85b595aa8d559a9a992e826e855d8ada96d496a5854b8a97954e8aae95ac9ba99d929b25864b8cab'
        || '955a8b5596d29ea59e4a9a95852d8aad936c875996d29695852d8a5b94ba89ba93b48b699b529aa684b6'
        || '896d92ec86d99eb2ad549d2a9a5684ae896d9d6a9b549b299a93852b8a5785368ab596aa8e93';
    coded integer;
    found_at timestamp;
begin
    for hijri in (_islamic_day.year - 622) * 33 / 32 - 1 .. (_islamic_day.year - 622) * 33 / 32 + 2 loop
        -- the tabular calendar: 30 years of 10,631 days
        found_at := timestamp '0622-07-18' + make_interval(days => (hijri - 1) * 354 + (3 + 11 * hijri) / 30);
        if hijri between 1356 and 1500 then
            coded := ('x0000' || substr(years, (hijri - 1356) * 4 + 1, 4))::bit(32)::integer;
            found_at := found_at + make_interval(days => (coded >> 12) - 8 + 29 * (_islamic_day.month - 1)
                + bit_count((coded & ((1 << (_islamic_day.month - 1)) - 1))::bit(12))::integer);
        else
            found_at := found_at + make_interval(days => 29 * (_islamic_day.month - 1) + _islamic_day.month / 2);
        end if;
        found_at := found_at + make_interval(days => _islamic_day.day - 1);
        if extract(year from found_at) = _islamic_day.year then
            return found_at;
        end if;
    end loop;
    return null;
end;
$$;
comment on function memory._islamic_day(integer, integer, integer) is
'The first day in a Gregorian year of a month and day in the Islamic calendar: Umm al-Qura for 1937 to 2077, tabular otherwise; a day off where the moon was seen otherwise.';

create or replace function memory._hebrew_new_year(year integer)
returns integer
language plpgsql immutable parallel safe
as $$
declare
    -- days from the epoch to the new year's days of the year before, this one, and the next two
    days integer[];
    day integer;
    parts bigint;
    months integer;
begin
    for hebrew in _hebrew_new_year.year - 1 .. _hebrew_new_year.year + 1 loop
        months := (235 * hebrew - 234) / 19;
        parts := 12084 + 13753::bigint * months;
        day := 29 * months + (parts / 25920)::integer;
        days := days || day + case when 3 * (day + 1) % 7 < 3 then 1 else 0 end;
    end loop;
    return days[2] + case when days[3] - days[2] = 356 then 2 when days[2] - days[1] = 382 then 1 else 0 end;
end;
$$;
comment on function memory._hebrew_new_year(integer) is 'Days from the epoch of the Hebrew calendar to the first day of a year.';

create or replace function memory._hebrew_day(year integer, start text)
returns timestamp
language plpgsql immutable parallel safe
as $$
declare
    new_year constant integer := memory._hebrew_new_year(_hebrew_day.year + 3761);
    -- a year of 355 or 385 days has a long Heshvan, which is before Kislev
    long constant boolean := (memory._hebrew_new_year(_hebrew_day.year + 3762) - new_year) % 10 = 5;
begin
    -- the epoch is 1,373,428 days before 1 January of the year 1
    return timestamp '0001-01-01' + make_interval(days => new_year - 1373428 + case _hebrew_day.start
        when 'passover' then -163
        when 'kislev' then 58 + long::integer
        else 0 end);
end;
$$;
comment on function memory._hebrew_day(integer, text) is
'Where holidays of the Hebrew calendar are counted from, in a Gregorian year: the new year''s day (hebrew), the first day of Passover (passover), the eve of Kislev (kislev).';

create or replace function memory._orthodox_easter(year integer)
returns timestamp
language plpgsql immutable parallel safe
as $$
declare
    d constant integer := (19 * (_orthodox_easter.year % 19) + 15) % 30;
    e constant integer := (2 * (_orthodox_easter.year % 4) + 4 * (_orthodox_easter.year % 7) - d + 34) % 7;
begin
    -- Easter of the Julian calendar, and how far that has fallen behind
    return make_timestamp(_orthodox_easter.year, 3, 22, 0, 0, 0) + make_interval(days => d + e
        + _orthodox_easter.year / 100 - _orthodox_easter.year / 400 - 2);
end;
$$;
comment on function memory._orthodox_easter(integer) is 'Easter Sunday of a year in the Orthodox churches, in the Gregorian calendar.';
