"""The addresses of variables: reading all at once finds the same as reading each alone."""

import tensorflow as tf

from lowtide.tf.record.addresses import AddressLookup
from lowtide.tf.references.holders import address_of


def test_variables_are_found_again_after_some_were_moved_and_one_became_a_copy():
    variables = [tf.Variable(tf.zeros([size, 8]), name=f"lowtide_place_{size}") for size in range(1, 41)]
    rows = tf.Variable(tf.zeros([50, 8]), name="lowtide_place_rows")
    large = tf.Variable(tf.zeros([600, 600]), name="lowtide_place_large")
    lookup = AddressLookup()

    def found():
        seen = {owner.name: owner for owner in lookup.owners((), ())}
        return {each.name: seen[each.name.removesuffix(":0")] for each in (*variables, rows, large)}

    # The first looks read them one by one.
    before = [found() for _ in range(4)][-1]
    # None of these is updated in place: each gets new memory.
    kept = [each.read_value() for each in variables[:20]]
    for each in variables[:20]:
        each.assign(tf.ones_like(each))
    large.assign(tf.ones_like(large))
    after = found()
    for each in (*variables, large):
        assert after[each.name].address == address_of(each.read_value())
        assert after[each.name].shape == tuple(each.shape)
    assert all(after[each.name].address != before[each.name].address for each in variables[:20])
    assert all(after[each.name] is before[each.name] for each in variables[20:])
    del kept
    # From now on each read of it is a copy, and it stays where it is.
    rows.scatter_update(tf.IndexedSlices(tf.ones([1, 8]), tf.constant([3])))
    lookup.forget_shared_reads()
    for _ in range(2):
        assert found()[rows.name].address == after[rows.name].address
