-- name: PutReceiptKeys :exec
-- Keeps keys that replicas told of. A key stays with the replica that told it first:
-- whoever tells it again has copied it.
INSERT INTO receipt_keys (public_key, key_id, replica, host, first_seen, last_seen)
SELECT unnest(@public_keys::bytea[]), unnest(@key_ids::text[]), unnest(@replicas::text[]), unnest(@hosts::text[]), @now, @now
ON CONFLICT (public_key) DO UPDATE SET last_seen = greatest(receipt_keys.last_seen, excluded.last_seen);

-- name: ListReceiptKeys :many
-- By the short name that receipts carry; two keys could share one.
SELECT public_key, key_id, replica, host, first_seen, last_seen FROM receipt_keys
WHERE key_id = @key_id::text ORDER BY first_seen LIMIT 10;
