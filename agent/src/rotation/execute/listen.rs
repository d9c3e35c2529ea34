//! Reads what is said of placeholders that do not run: events, and the statuses of those that are bound.

use http::Request;
use kube::Client;
use rotate_shared::names;

use super::ExecuteError;
use crate::cache::feed::escaped;
use crate::surge::told::AllTold;

/// Events in a page.
const PAGE: u32 = 500;
/// A namespace that holds nothing but placeholders has a few events for each of them.
const PAGES: u32 = 4;

/// What is said of these placeholders of a rotation.
pub(super) async fn listen(client: &Client, rotation: &str, wanted: &[String]) -> Result<AllTold, ExecuteError> {
    let room = names::ROOM_NAMESPACE;
    let mut told = AllTold::default();
    let mut next: Option<String> = None;
    for _ in 0..PAGES {
        let go_on = next.map(|token| format!("&continue={}", escaped(&token))).unwrap_or_default();
        let page = get(client, &format!("/api/v1/namespaces/{room}/events?limit={PAGE}{go_on}")).await?;
        next = told.take_events(&page, |uid| wanted.iter().any(|wanted| wanted == uid))?;
        if next.is_none() {
            break;
        }
    }
    let selector = escaped(&format!("{}={rotation}", names::ROTATION));
    let pending = escaped("status.phase=Pending");
    let path = format!("/api/v1/namespaces/{room}/pods?limit={PAGE}&labelSelector={selector}&fieldSelector={pending}");
    told.take_statuses(&get(client, &path).await?)?;
    Ok(told)
}

async fn get(client: &Client, path: &str) -> Result<String, ExecuteError> {
    Ok(client.request_text(Request::get(path).body(Vec::new())?).await?)
}
