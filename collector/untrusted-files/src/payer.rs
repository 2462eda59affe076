//! Who pays for what a program takes of what there is only so much of.
//!
//! A user can have 65,536 more user ids, which containers without root use (`/etc/subuid`): any of
//! that user's programs can run as any of them. Were each a user with a share of its own, that one
//! user would have nearly all that is shared out. So they pay together, as the user whose they are.

use std::ops::Range;
use std::sync::LazyLock;

/// What is read of a list: 65,536 users.
const LIST_BYTES: u64 = 4 << 20;
/// Ranges that are told apart.
const RANGES_MAX: usize = 1 << 16;

static OF_THIS_MACHINE: LazyLock<SubordinateIds> = LazyLock::new(SubordinateIds::of_this_machine);

/// The user whose share is taken when a program runs, or a file is owned, as this one.
///
/// Never for the question of who may do what: the ids stay different users to the kernel.
pub fn payer(user: u32) -> u32 {
    OF_THIS_MACHINE.payer(user)
}

/// User ids that belong to other users.
#[derive(Debug, Default)]
struct SubordinateIds {
    /// Sorted, without overlaps, and who pays for each.
    ranges: Vec<(Range<u32>, u32)>,
}

impl SubordinateIds {
    /// Other systems than Linux have no such lists.
    fn of_this_machine() -> Self {
        Self::parse(&text_of("/etc/subuid"), &text_of("/etc/passwd"))
    }

    /// Of lines `USER:FIRST:COUNT`, where a user is a name or a number, and those of `passwd`.
    fn parse(subordinate: &str, passwd: &str) -> Self {
        let mut ranges: Vec<_> = subordinate
            .lines()
            .filter_map(|line| {
                let mut fields = line.trim().split(':');
                let (owner, first) = (fields.next()?, fields.next()?.parse::<u32>().ok()?);
                let count: u32 = fields.next()?.parse().ok()?;
                let range = first..first.saturating_add(count);
                (first > 0 && !range.is_empty()).then(|| (range, owner_of(owner, first, passwd)))
            })
            .take(RANGES_MAX)
            .collect();
        ranges.sort_by_key(|(range, _)| range.start);
        let mut end = 0;
        for (range, _) in &mut ranges {
            range.start = range.start.max(end);
            end = end.max(range.end);
        }
        ranges.retain(|(range, _)| !range.is_empty());
        Self { ranges }
    }

    fn payer(&self, user: u32) -> u32 {
        let behind = self.ranges.partition_point(|(range, _)| range.start <= user);
        let last = behind.checked_sub(1).and_then(|index| self.ranges.get(index));
        last.filter(|(range, _)| range.contains(&user)).map_or(user, |(_, owner)| *owner)
    }
}

/// Whose a range is. Where that is not known it is its first id's; so is root's, who gives it to
/// containers that are not trusted with what root may have.
fn owner_of(owner: &str, first: u32, passwd: &str) -> u32 {
    let user: Option<u32> = owner.parse().ok().or_else(|| named(owner, passwd));
    user.filter(|user| *user != 0).unwrap_or(first)
}

/// The id of the user of that name.
fn named(name: &str, passwd: &str) -> Option<u32> {
    let mut users = passwd.lines().map(|line| line.split(':'));
    let mut fields = users.find_map(|mut fields| (fields.next()? == name).then_some(fields))?;
    fields.nth(1)?.parse().ok()
}

/// A list of the system's; what cannot be read is none.
fn text_of(path: &str) -> String {
    use std::io::Read;
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        // As far as it could be read it holds.
        let _ = file.take(LIST_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nalice:x:1001:1001::/home/alice:/bin/sh\n";

    fn payers<const N: usize>(subordinate: &str, users: [u32; N]) -> [u32; N] {
        let ids = SubordinateIds::parse(subordinate, PASSWD);
        users.map(|user| ids.payer(user))
    }

    #[test]
    fn a_users_subordinate_ids_are_that_user() {
        let subordinate = "alice:100000:65536\n1002:165536:65536\n";
        let users = [0, 1001, 99_999, 100_000, 165_535, 165_536, 231_071, 231_072];
        let expected = [0, 1001, 99_999, 1001, 1001, 1002, 1002, 231_072];
        assert_eq!(payers(subordinate, users), expected);
    }

    #[test]
    fn a_range_of_roots_or_of_nobody_known_pays_for_itself() {
        let subordinate = "root:100000:65536\nfrom-elsewhere:200000:65536";
        let expected = [100_000, 100_000, 200_000];
        assert_eq!(payers(subordinate, [100_000, 165_535, 265_535]), expected);
    }

    #[test]
    fn lists_may_be_wrong() {
        let wrong = "alice\nalice:x:1\nalice:5\n:::\nalice:0:4294967295\nalice:7:0\n\u{fffd}";
        assert_eq!(payers(wrong, [0, 5, 7, 70_000]), [0, 5, 7, 70_000]);
        // Of ranges that overlap the one that begins first has what both have.
        let both = "1003:150000:65536\nalice:100000:65536\n1004:4294967290:100";
        assert_eq!(payers(both, [160_000, 170_000, u32::MAX - 1]), [1001, 1003, 1004]);
    }
}
