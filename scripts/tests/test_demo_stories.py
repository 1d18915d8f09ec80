"""What a seed decides."""

import demo_stories
import pytest


def test_the_same_seed_draws_the_same_plan_and_another_seed_another():
    assert demo_stories.plan(7) == demo_stories.plan(7)
    assert len({repr(demo_stories.plan(seed)) for seed in range(50)}) == 50


def test_every_seed_draws_a_plan_that_can_be_played():
    places, refused = set(), set()
    for seed in range(200):
        drawn = demo_stories.plan(seed)
        orders = [*drawn.first, drawn.worker_killed, drawn.node_killed]
        assert len({order.id for order in orders}) == 5
        not_served = [order.id for order in orders if order.input["country"] in demo_stories.NOT_SERVED]
        assert not_served == [drawn.refused] and drawn.refused in [order.id for order in drawn.first]
        for who, order in (("worker", drawn.worker_killed), ("node", drawn.node_killed)):
            step, half = getattr(drawn, f"{who}_kill_place").split()
            items = len(order.input["items"])
            assert step in ["charge", "ship", "confirm", *(f"reserve[{index}]" for index in range(items))]
            places.add((who, step.partition("[")[0], half))
        refused.add([order.id for order in drawn.first].index(drawn.refused))
    assert len(places) == 2 * 4 * 2, "both are killed at every step, before and after its effect"
    assert refused == {0, 1, 2}


def test_the_shard_of_the_only_order_is_the_one_that_grew_most():
    before = {1: {"node": "orbit-1", "applied": 5}, 2: {"node": "orbit-2", "applied": 5}}
    now = {1: {"node": "orbit-1", "applied": 6}, 2: {"node": "orbit-3", "applied": 9}}
    assert demo_stories.shard_of_the_only_order(before, now) == (2, "orbit-3")
    with pytest.raises(demo_stories.Failed):
        demo_stories.shard_of_the_only_order(before, before)
