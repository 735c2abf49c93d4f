-- Runs once, as the superuser, when the volume is new: two roles, so that the server neither owns what
-- it serves nor could switch off what keeps users apart. `memphant install` does the rest as the owner.
\set ON_ERROR_STOP on
\getenv owner_password MEMPHANT_OWNER_PASSWORD
\getenv server_password MEMPHANT_SERVER_PASSWORD
create role memphant_owner login createrole password :'owner_password';
create role memphant_app login password :'server_password';
alter database memphant owner to memphant_owner;
create extension if not exists vector;
