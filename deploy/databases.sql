-- One database for each: the ledger, the catalog of the lake, and Dagster's records.
CREATE DATABASE ledger ENCODING 'UTF8' TEMPLATE template0;
CREATE DATABASE catalog ENCODING 'UTF8' TEMPLATE template0;
CREATE DATABASE dagster ENCODING 'UTF8' TEMPLATE template0;
