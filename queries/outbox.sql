-- name: InsertOutbox :one
INSERT INTO outbox (kind, ref, created_at) VALUES (@kind, @ref, @now) RETURNING id;

-- name: InsertBulkOutbox :exec
-- Many at once, which wait until nothing else does.
INSERT INTO outbox (kind, ref, created_at, bulk) SELECT @kind, unnest(@refs::text[]), @now, true;

-- name: ListPendingOutbox :many
-- Rows of bulk jobs come last.
SELECT * FROM outbox WHERE done_at IS NULL ORDER BY bulk, id LIMIT @max_rows;

-- name: CountPendingOutbox :one
-- Exact up to 10 000; more are 10 001.
SELECT count(*) FROM (SELECT 1 FROM outbox WHERE done_at IS NULL LIMIT 10001) few;

-- name: GetOutbox :one
SELECT * FROM outbox WHERE id = @id;

-- name: FinishOutbox :exec
UPDATE outbox SET done_at = @now, epoch = @epoch, seq = @seq, result = @result, last_error = '' WHERE id = ANY (@ids::bigint[]);

-- name: DeleteSentOutbox :exec
-- Rows of bulk jobs leave no trace: nobody waits for one of them.
DELETE FROM outbox WHERE bulk AND id = ANY (@ids::bigint[]);

-- name: FailOutbox :exec
UPDATE outbox SET attempts = attempts + 1, last_error = @last_error WHERE id = ANY (@ids::bigint[]);

-- name: DeleteDoneOutbox :execrows
-- Some at a time: a statement has two seconds.
DELETE FROM outbox WHERE id IN (SELECT o.id FROM outbox o WHERE o.done_at < @before::timestamptz ORDER BY o.done_at LIMIT @max_rows);

-- name: GetFeedPlace :one
SELECT epoch, seq FROM feed_place WHERE one;

-- name: SetFeedPlace :exec
UPDATE feed_place SET epoch = @epoch, seq = @seq, updated_at = @now WHERE one;
