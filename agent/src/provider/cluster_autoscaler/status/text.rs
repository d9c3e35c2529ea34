//! The text form, before 1.30: meant for people, and the same for years.

use super::{GroupStatus, TEXT, Told, held_up, time};

/// Reads it.
pub(super) fn parse(text: &str) -> Result<Told, String> {
    let first = text.lines().next().unwrap_or_default();
    let written = first.strip_prefix(TEXT).unwrap_or_default().trim_end().trim_end_matches(':');
    let at = time(written).ok_or_else(|| format!("it was written at {written:?}, which is no time"))?;
    let mut groups: Vec<GroupStatus> = Vec::new();
    let mut health = String::new();
    let of_groups = text.lines().skip_while(|line| line.trim() != "NodeGroups:").skip(1);
    for line in of_groups {
        let Some((key, value)) = line.trim().split_once(':') else { continue };
        let value = value.trim();
        match (key, groups.last_mut()) {
            ("Name", _) => groups.push(GroupStatus { name: value.to_owned(), ..GroupStatus::default() }),
            ("Health", Some(group)) => {
                health = word(value).to_owned();
                let number = |key| number(value, key).ok_or_else(|| format!("group {}: no {key}", group.name));
                let numbers =
                    [number("ready")?, number("cloudProviderTarget")?, number("minSize")?, number("maxSize")?];
                [group.ready, group.target, group.min, group.max] = numbers;
                group.held_up = held_up(&health, "", "");
            }
            ("ScaleUp", Some(group)) => group.held_up = held_up(&health, word(value), ""),
            _ => {}
        }
    }
    Ok(Told { at, running: true, groups })
}

fn word(value: &str) -> &str {
    value.split_whitespace().next().unwrap_or_default()
}

/// The number after `key=`.
fn number(value: &str, key: &str) -> Option<u32> {
    let at = value.match_indices(key).find_map(|(at, _)| {
        let alone = !value[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
        value[at + key.len()..].strip_prefix('=').filter(|_| alone)
    })?;
    let digits = at.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}
