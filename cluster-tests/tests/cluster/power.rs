//! The power fails: all nodes are gone at once. Workers live on with what they hold, come back to whichever node is
//! there first, and nothing that they hold is handed out once more.

use std::sync::Arc;

use futures::future::join_all;
use orbit_harness::{Plan, Worker};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::scene::{Scene, launch, until, world};
use crate::support::{caller, client};

/// Held when the power fails, by two workers.
const TASKS: usize = 40;

const DOCUMENT: &str = "
name: hold
version: 1.0.0
tasks: {do.hold: {version: 1.0.0}}
steps: [{id: hold, task: do.hold}]
";

#[test]
fn what_workers_hold_when_the_power_fails_is_not_run_twice() {
    let world = world("power");
    world.run(async |world| {
        let mut scene = Scene::quiet(world).await;
        scene.load.deploy(DOCUMENT).await;
        let shared = Arc::clone(&scene.load.shared);
        let mut workers = JoinSet::new();
        let back = watch::Sender::new(false);
        for number in 0..2 {
            let until = back.subscribe();
            let plan = move |_: &_| Plan { until: Some(until.clone()), ..Plan::default() };
            let worker = Worker::new(&format!("holder-{number}"), &[("do.hold", "1.0.0")]).slots(TASKS / 2).plan(plan);
            workers.spawn(worker.stream(Arc::clone(&shared.notebook), shared.at.subscribe()));
        }
        let ids: Vec<_> = (0..TASKS).map(|number| format!("hold-{number}")).collect();
        let mut client = client::Client::of(&shared, 0);
        for id in &ids {
            caller::start(&shared, &mut client, id, "hold", &json!({})).await;
        }
        until("workers hold everything", async || shared.ledger().tasks.len() == TASKS).await;

        let killed = join_all(scene.nodes.iter().map(|node| node.kill())).await;
        assert!(killed.iter().all(|status| status.as_ref().unwrap().code().is_none()), "{killed:?}");
        world.start_all(&launch()).await.unwrap_or_else(|error| panic!("{error}"));
        back.send_replace(true);

        for id in &ids {
            caller::follow(&shared, &mut client, id).await;
        }
        let ledger = shared.ledger().clone();
        assert_eq!(ledger.tasks.len(), TASKS, "some came twice: {:#?}", ledger.tasks);
        assert!(ledger.tasks.values().all(|task| task.answered == Some(true)), "{:#?}", ledger.tasks);
        workers.shutdown().await;
        scene.end().await;
    });
}
