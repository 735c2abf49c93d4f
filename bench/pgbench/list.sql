-- The newest 20 memories of a tenant.
\set tenant random_zipfian(1, :tenants, 1.05)
select memory.list_reply(
    user_id => 'tenant-' || :tenant,
    agent_id => 'bench',
    max_results => 20);
