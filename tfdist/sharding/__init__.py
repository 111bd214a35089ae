"""Models that do not fit one device: what each worker holds a shard of, and with whom it shares it. No TensorFlow.

`sharding_mode` has the modes of `--shard`, what each of them cuts, and a run's choice; `mesh` arranges the workers
along axes, so that those of one group share what is cut, and `shard_groups` chooses the groups of `--shard-over`; `cut`
says which elements of a tensor each of them holds, or `axis_cut` which slice along an axis, and `file_shards` which of
these it writes, and where in a file. `group_sizes` has what `--tensor` and `--context` can be, `derived_layouts` along
which axis a weight is cut without a layout, and `layout_patterns` what of a layout map is of no use.
"""

from tfdist.sharding.mesh import Mesh
from tfdist.sharding.sharding_mode import Sharding, ShardMode, sharding_of

__all__ = ["Mesh", "ShardMode", "Sharding", "sharding_of"]
