"""What a seed decides."""

import demo_stories


def test_the_same_seed_draws_the_same_plan_and_another_seed_another():
    assert demo_stories.plan(7) == demo_stories.plan(7)
    assert len({repr(demo_stories.plan(seed)) for seed in range(50)}) == 50


def test_every_seed_draws_a_plan_that_can_be_played():
    stalls, steps, refused = set(), set(), set()
    for seed in range(200):
        drawn = demo_stories.plan(seed)
        orders = [*drawn.first, drawn.worker_killed, drawn.node_killed]
        assert len({order.id for order in orders}) == 5
        not_served = [order.id for order in orders if order.input["country"] in demo_stories.NOT_SERVED]
        assert not_served == [drawn.refused] and drawn.refused in [order.id for order in drawn.first]
        step, _, half = drawn.stall.partition(" ")
        items = len(drawn.worker_killed.input["items"])
        assert step in ["charge", "ship", "confirm", *(f"reserve[{index}]" for index in range(items))]
        stalls.add((step, half))
        steps.add(drawn.node_kill_step)
        refused.add([order.id for order in drawn.first].index(drawn.refused))
    assert {half for _, half in stalls} == {"before", "after"} and len(stalls) >= 10
    assert steps == {"reserve[0]", "charge", "ship"} and refused == {0, 1, 2}
