-- Run by PostgreSQL's image when its volume is new.
CREATE DATABASE prefect;
CREATE DATABASE mlflow;
