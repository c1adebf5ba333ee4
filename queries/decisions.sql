-- name: InsertDecisionBatch :execrows
-- No row when it is there already.
INSERT INTO decision_batches (replica, boot, seq, from_at, to_at, entries, sample, dropped, unjudged, received_at, body)
VALUES (@replica, @boot, @seq, @from_at, @to_at, @entries, @sample, @dropped, @unjudged, @received_at, @body)
ON CONFLICT (replica, boot, seq) DO NOTHING;

-- name: GetDecisionPlace :one
SELECT place FROM decision_place WHERE one;

-- name: SetDecisionPlace :exec
UPDATE decision_place SET place = @place, updated_at = @now WHERE one;

-- name: ListDecisionBatches :many
-- A page of the batches that touch a time, by their beginning. No batch spans more than an hour.
SELECT id, replica, boot, seq, from_at, to_at, entries, sample, dropped, unjudged, body FROM decision_batches
WHERE from_at >= @since AND to_at >= @from_at AND from_at <= @to_at
  AND (from_at, id) > (@after_at::timestamptz, @after_id::bigint)
ORDER BY from_at, id LIMIT @max_rows;

-- name: SumDecisions :one
-- What the log has of a time. Sample is the smallest share of subjects.
SELECT coalesce(sum(entries), 0)::bigint AS entries, coalesce(sum(dropped), 0)::bigint AS dropped, coalesce(sum(unjudged), 0)::bigint AS unjudged,
  count(*) AS batches, coalesce(min(sample), 65536)::integer AS sample, coalesce(sum(bytes), 0)::bigint AS bytes,
  coalesce(min(from_at), @from_at)::timestamptz AS first_at, coalesce(max(to_at), @from_at)::timestamptz AS last_at
FROM decision_batches
WHERE from_at >= @since AND to_at >= @from_at AND from_at <= @to_at;

-- name: DeleteOldDecisions :execrows
-- Some at a time, so that no statement takes long.
DELETE FROM decision_batches WHERE id IN (
  SELECT b.id FROM decision_batches b WHERE b.received_at < @before ORDER BY b.received_at, b.id LIMIT @max_rows
);

-- name: TrimDecisions :execrows
-- Keeps the newest batches that fit into so many bytes together; some at a time.
DELETE FROM decision_batches WHERE id IN (
  SELECT id FROM (SELECT id, sum(bytes) OVER (ORDER BY received_at DESC, id DESC) AS total FROM decision_batches) sized
  WHERE total > @max_bytes::bigint ORDER BY total DESC LIMIT @max_rows
);
