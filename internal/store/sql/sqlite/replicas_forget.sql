-- Forgets all replicas: whoever has locked the file knows that they are gone.
-- Inputs: none.
-- Result: none.
DELETE FROM replicas
