from __future__ import annotations

import pytest

from tests.unit.plan.sources import plan, source
from tfdist.plan.plan_inputs import ClusterSize
from tfdist.plan.plan_table import render

TABLE = """\
digits: the plan of its data
  replicas       4 on 2 workers on 2 hosts, 2 each
  global batch   10 samples, 2 or 3 on each replica
  learning rate  0.1 (sgd), for a global batch of 10 on any number of replicas; 10 samples on each replica would be a
                 batch of 40 and 0.4 by the linear rule (Goyal et al. 2017), with a warm-up
  seed           7

data.train: tfrecord, 2 files, 3.30 kB
  samples        33
  steps          4 an epoch, 12 in 3 epochs
  last batch     3 samples, 0 or 1 on each replica, none on 1 replica
  shuffle        no, always in the order of the files
  prefetch       2 batches of each replica wait for their step
  memory         about 5.80 kB a worker: 1.00 kB held, 4.80 kB in batches

  file               samples      size
  /data/0.tfrecord        30   3.00 kB
  /data/1.tfrecord         3     300 B

  reads      samples     bytes   of
  worker 0        17   1.70 kB   all files, the same records every epoch
  worker 1        16   1.60 kB   all files, the same records every epoch

warning uneven-replicas: data.batch_size: 10 samples on 4 replicas are 2 or 3 each, and all wait for the largest: a step
  takes about 20% more than an even one would. The numbers stay exact. 12 samples would be even."""


def test_the_table() -> None:
    sizes = source(30, 3, held_bytes=1000)
    made = plan(sizes, layout=ClusterSize(2, 4, hosts=2), optimizer={"name": "sgd", "learning_rate": 0.1})
    assert render(made) == TABLE


def test_epochs_of_a_number_of_steps() -> None:
    made = plan(source(30, 3), steps_per_epoch=6)
    assert "  steps          6 an epoch, 18 in 3 epochs; 4 for every sample once\n" in render(made)


def test_what_is_many_is_cut() -> None:
    text = render(plan(source(*[10] * 20), layout=ClusterSize(40, 40)))
    assert "  and 12 more with 120 samples, 12.0 kB\n" in text
    assert "  and 24 more workers alike\n" in text
    assert "worker 15" in text and "worker 16" not in text


def test_a_worker_that_reads_few_of_the_files_has_them_named() -> None:
    text = render(plan(source(5, 5, 5, 5, 5), batch_size=25, layout=ClusterSize(5, 5)))
    assert "worker 2         5   500 B   2.tfrecord\n" in text


def test_a_shuffled_order_and_a_single_file() -> None:
    text = render(plan(source(50), shuffle=True, seed=None, validation=source(20, estimated=True)))
    assert "data.train: tfrecord, /data/0.tfrecord, 5.00 kB\n" in text
    assert "  shuffle        all samples, in a new order every epoch\n" in text
    assert "0.tfrecord, different records every epoch" in text
    assert "  seed           drawn when the run starts\n" in text
    assert "  last batch     as large as the others\n" in text
    assert "at least 6.00 kB a worker" in text


@pytest.mark.parametrize(
    ("layout", "line"),
    [
        (ClusterSize(), "  replicas       1 on 1 worker"),
        (ClusterSize(1, 4), "  replicas       4 on 1 worker"),
        (ClusterSize(2, 4), "  replicas       4 on 2 workers, 2 each"),
        (ClusterSize(4, 4, hosts=2), "  replicas       4 on 4 workers on 2 hosts, 1 each"),
    ],
)
def test_who_takes_part(layout: ClusterSize, line: str) -> None:
    assert line in render(plan(source(100), layout=layout)).splitlines()


def test_a_single_file_has_no_table_of_files() -> None:
    assert "  file " not in render(plan(source(100)))
    assert "  file " in render(plan(source(100, 50)))
