-- name: InsertOutbox :one
INSERT INTO outbox (kind, ref, created_at) VALUES (@kind, @ref, @now) RETURNING id;

-- name: ListPendingOutbox :many
SELECT * FROM outbox WHERE done_at IS NULL ORDER BY id LIMIT @max_rows;

-- name: CountPendingOutbox :one
SELECT count(*) FROM outbox WHERE done_at IS NULL;

-- name: GetOutbox :one
SELECT * FROM outbox WHERE id = @id;

-- name: FinishOutbox :exec
UPDATE outbox SET done_at = @now, epoch = @epoch, seq = @seq, result = @result, last_error = '' WHERE id = ANY (@ids::bigint[]);

-- name: FailOutbox :exec
UPDATE outbox SET attempts = attempts + 1, last_error = @last_error WHERE id = ANY (@ids::bigint[]);

-- name: DeleteDoneOutbox :exec
DELETE FROM outbox WHERE done_at < @before::timestamptz;

-- name: GetFeedPlace :one
SELECT epoch, seq FROM feed_place WHERE one;

-- name: SetFeedPlace :exec
UPDATE feed_place SET epoch = @epoch, seq = @seq, updated_at = @now WHERE one;
