"""How a request to an object store is signed, past the example that AWS publishes; what it asks is in the doctor's tests."""

from datetime import UTC, datetime

from tidings_service.s3_rights import Signer


def test_a_request_is_signed_as_in_the_examples() -> None:
    signer = Signer("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1")
    now = datetime(2013, 5, 24, tzinfo=UTC)
    # "GET Bucket Lifecycle" of "Examples of the complete Version 4 signing process" (AWS, Amazon S3 API reference).
    said = signer.headers("GET", "https://examplebucket.s3.amazonaws.com/?lifecycle", now)
    assert said["Authorization"].endswith(
        "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
    )
    # "GET Bucket (List Objects)" of the same page.
    said = signer.headers("GET", "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J", now)
    assert said["Authorization"].endswith(
        "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    )
