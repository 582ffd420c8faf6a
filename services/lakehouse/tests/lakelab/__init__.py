"""What the lakehouse's tests are made of: topics as capture and the translator write them, and the job."""
