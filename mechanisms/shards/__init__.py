"""Private records that stay in partitions, which Dask's workers read; only counts and nearest neighbours come back."""

from mechanisms.shards.records import Shard, ShardedRecords, ShardSizeWarning, Staying, is_sharded, shard_records

__all__ = ["Shard", "ShardSizeWarning", "ShardedRecords", "Staying", "is_sharded", "shard_records"]
