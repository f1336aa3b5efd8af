SELECT fruit.name, sum(harvest.weight_kg) AS total_kg
FROM harvest JOIN fruit ON fruit.id = harvest.fruit_id
WHERE harvest.day >= DATE '2026-01-01'
GROUP BY fruit.name ORDER BY total_kg DESC;
