\echo Use "ALTER EXTENSION sfi UPDATE" to load this file. \quit

-- Dumps have tables in the order of their schemas' names. Constraints and types of other tables may
-- need libraries while these are restored. So the libraries are in a schema that comes first.
CREATE SCHEMA "$sfi";
GRANT USAGE ON SCHEMA "$sfi" TO PUBLIC;
ALTER TABLE library SET SCHEMA "$sfi";
-- For dumps of earlier versions.
CREATE VIEW library AS SELECT * FROM "$sfi".library;
REVOKE ALL ON library FROM PUBLIC;
CREATE FUNCTION library_row() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS 'BEGIN INSERT INTO "$sfi".library VALUES (NEW.*); RETURN NEW; END';
CREATE TRIGGER library_row INSTEAD OF INSERT ON library FOR EACH ROW EXECUTE FUNCTION library_row();
