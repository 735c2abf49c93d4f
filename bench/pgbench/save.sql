-- One save as the server makes it: a new text with its vector, a list of one.
\set tenant random_zipfian(1, :tenants, 1.05)
\set number random(1, 1000)
\set unique random(1, 9000000000000000)
select s.status
from bench.queries as q,
    memory.save_list(
        user_id => 'tenant-' || :tenant,
        agent_id => 'bench',
        items => jsonb_build_array(jsonb_build_object(
            'content', q.query || ' ' || q.query || ' ' || :unique)),
        embeddings => array[q.embedding]) as s
where q.number = :number;
