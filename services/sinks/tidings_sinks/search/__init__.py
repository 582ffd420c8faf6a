"""A sink that writes documents to OpenSearch, and by the same API to Elasticsearch: by bulk, with external versions."""
