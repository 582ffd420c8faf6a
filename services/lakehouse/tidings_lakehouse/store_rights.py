"""Whether the lake's bucket takes objects, with the key that its settings have."""

from urllib.parse import urlsplit

from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.topics import CATALOG
from tidings_service.s3_rights import Signer, bucket_url, check_upload


def check_writable(settings: WarehouseSettings) -> bool:
    """See that the key may put objects below the warehouse; False: that cannot be asked, because the key is not in the settings,
    or the store's interface is not S3's.

    Raises:
        StoreError: it may not, or an upload that was begun could not be aborted.
    """
    conf = _conf(settings)
    place = urlsplit(settings.warehouse_uri)
    key, secret = conf.get("s3.access-key-id"), conf.get("s3.secret-access-key")
    if not key or not secret or not place.scheme.startswith("s3"):
        return False
    region = conf.get("client.region", "us-east-1")
    by_path = conf.get("s3.path-style-access", "").lower() == "true"
    bucket = bucket_url(conf.get("s3.endpoint", ""), place.netloc, region, by_path=by_path)
    check_upload(
        Signer(key, secret, region, conf.get("s3.session-token", "")), bucket, place.path.rstrip("/")
    )
    return True


def _conf(settings: WarehouseSettings) -> dict[str, str]:
    prefix = f"spark.sql.catalog.{CATALOG}."
    return {k.removeprefix(prefix): v for k, v in settings.spark_conf.items() if k.startswith(prefix)}
