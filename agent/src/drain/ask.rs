//! Which evictions the API server would refuse now: asked with `dryRun`, so that nothing is changed.

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Options, Plan};

use super::evict::{self, Answer, EvictError, Eviction};

/// Evictions asked for at once: a plan of a whole fleet must not flood the API server.
const AT_ONCE: usize = 8;

/// Asks for the eviction of every Pod that would be evicted, and adds to each plan's warnings what would be refused. Each
/// is asked for alone: that a disruption budget allows one does not mean that it allows all at a time.
///
/// # Errors
///
/// The API server cannot be reached.
pub async fn ask(client: &Client, plans: &mut [Plan], options: &Options) -> Result<(), EvictError> {
    for plan in plans {
        let evicted = plan.pods.iter().filter(|pod| pod.is_to_evict());
        let evictions: Vec<Eviction> = evicted
            .map(|pod| Eviction {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                grace_period_seconds: (options.grace_period_seconds >= 0).then_some(options.grace_period_seconds),
                bypass: options.disable_eviction,
            })
            .collect();
        // A `Vec` of futures: a closure in the stream would not be general enough over its lifetimes to be `Send`.
        let asked: Vec<_> = evictions.iter().map(|eviction| one(client, eviction)).collect();
        let refused: Vec<Option<Notice>> = stream::iter(asked).buffered(AT_ONCE).try_collect().await?;
        plan.warnings.extend(refused.into_iter().flatten());
    }
    Ok(())
}

async fn one(client: &Client, eviction: &Eviction) -> Result<Option<Notice>, EvictError> {
    let answer = evict::ask(client, eviction).await?;
    Ok(refusal(answer, eviction.act()).map(|(code, message, remedy)| Notice {
        code,
        object: format!("Pod {}/{}", eviction.namespace, eviction.name),
        message,
        remedy: remedy.to_owned(),
    }))
}

/// What a refusal means for a rotation; `None`: the Pod would go.
fn refusal(answer: Answer, act: &str) -> Option<(Code, String, &'static str)> {
    match answer {
        Answer::Accepted | Answer::Gone | Answer::Replaced | Answer::NamespaceTerminating => None,
        Answer::Budget { message } => Some((
            Code::PodDisruptionBudget,
            format!("its eviction would be refused now: {message}"),
            "the rotation waits until the budget allows it",
        )),
        Answer::SeveralBudgets { message } => Some((
            Code::MultiplePodDisruptionBudgets,
            format!("its eviction would be refused: {message}"),
            "leave one budget that selects it",
        )),
        Answer::Throttled { .. } => {
            Some((Code::Throttled, "the API server is too busy to say whether it would evict it".to_owned(), ""))
        }
        Answer::Refused { status, message } => {
            Some((Code::EvictionRefused, format!("its {act} would be refused: {status} {message}"), ""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_keeps_a_pod_from_going_is_told() {
        for answer in [Answer::Accepted, Answer::Gone, Answer::Replaced, Answer::NamespaceTerminating] {
            assert_eq!(refusal(answer, "eviction"), None);
        }
        let message = || "The disruption budget web needs 3 healthy pods and has 3 currently".to_owned();
        let (code, told, _) = refusal(Answer::Budget { message: message() }, "eviction").unwrap();
        assert_eq!(
            (code, told),
            (Code::PodDisruptionBudget, format!("its eviction would be refused now: {}", message()))
        );
        let webhook = Answer::Refused { status: 403, message: "admission webhook denied".to_owned() };
        let (code, told, _) = refusal(webhook, "deletion").unwrap();
        let wanted = "its deletion would be refused: 403 admission webhook denied";
        assert_eq!((code, &*told), (Code::EvictionRefused, wanted));
    }
}
