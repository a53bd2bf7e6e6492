-- name: CreateOrder :exec
INSERT INTO orders (name) VALUES (?);
