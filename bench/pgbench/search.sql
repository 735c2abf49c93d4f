-- One search as the server makes it: memory.search_reply of a tenant, with a vector.
-- Large tenants are asked more often than small ones.
\set tenant random_zipfian(1, :tenants, 1.05)
\set number random(1, 1000)
select memory.search_reply(
    user_id => 'tenant-' || :tenant,
    agent_id => 'bench',
    query => q.query,
    embedding => q.embedding,
    max_results => 10)
from bench.queries as q
where q.number = :number;
