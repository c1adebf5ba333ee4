-- name: InsertCapacity :exec
INSERT INTO capacities (id, route, target, version, knee_milli, beyond_milli, plateau_us, p99_us, ended, why, method, note, steps, measured_at, author_id, author, created_at)
VALUES (@id, @route, @target, @version, @knee_milli, @beyond_milli, @plateau_us, @p99_us, @ended, @why, @method, @note, @steps, @measured_at, @author_id, @author, @created_at);

-- name: GetCapacity :one
SELECT * FROM capacities WHERE id = @id;

-- name: ListCapacities :many
-- Newest first, without steps. Route '' is every one.
SELECT id, route, target, version, knee_milli, beyond_milli, plateau_us, p99_us, ended, why, method, note, measured_at, author_id, author, created_at
FROM capacities WHERE (@route::text = '' OR route = @route) AND (@before_id::text = '' OR (measured_at, id) < (@before_at::timestamptz, @before_id))
ORDER BY measured_at DESC, id DESC LIMIT @max_rows;

-- name: NewestCapacities :many
-- The newest of each route, without steps.
SELECT DISTINCT ON (route) id, route, target, version, knee_milli, beyond_milli, plateau_us, p99_us, ended, why, method, note, measured_at, author_id, author, created_at
FROM capacities ORDER BY route, measured_at DESC, id DESC;
