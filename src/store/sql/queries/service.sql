-- What the service asks now and then to know whether it can serve.

-- name: store_probe
SELECT surety_now() AS now, (SELECT max(version) FROM public.schema_migrations)::bigint AS version
