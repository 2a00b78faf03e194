//! Numbers of events: ascending, and the same whenever an event is told (R258). Pure.
//!
//! A number holds the row, the line in it and the event of that line, so that it needs no count of what was told. It
//! stays exact in a double up to 2^33 rows.

/// Bits for the line and the event together.
const WITHIN_BITS: u32 = 20;
/// Bits for the event alone: a line means three things at most.
const EVENT_BITS: u32 = 2;
const WITHIN_MAX: u64 = (1 << WITHIN_BITS) - 1;

/// The number of an event.
pub(super) fn of(row: i64, line: usize, event: usize) -> u64 {
    let event = (event as u64).min((1 << EVENT_BITS) - 1);
    upto(row - 1) + 1 + ((line as u64) << EVENT_BITS | event).min(WITHIN_MAX - 1)
}

/// The greatest number of that row and all before it.
pub(super) fn upto(row: i64) -> u64 {
    (u64::try_from(row).unwrap_or(0) << WITHIN_BITS) | WITHIN_MAX
}

/// Behind which row everything lies that has a greater number than this.
pub(super) fn row_before(number: u64) -> i64 {
    i64::try_from(number >> WITHIN_BITS).unwrap_or(i64::MAX) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R258: numbers ascend with row, line and event, and lead back to the row.
    #[test]
    fn numbers_ascend_and_lead_back_to_their_row() {
        let all = [of(1, 0, 0), of(1, 0, 1), of(1, 1, 0), of(1, 200_000, 3), of(2, 0, 0), of(1 << 32, 5, 1)];
        assert!(all.is_sorted() && all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
        assert!(upto(0) < of(1, 0, 0) && of(1, 262_143, 3) <= upto(1) && upto(1) < of(2, 0, 0));
        assert_eq!((row_before(of(7, 3, 0)), row_before(upto(7)), row_before(0)), (6, 6, -1));
        assert!(of(1 << 32, 0, 0) < 1 << 53);
    }
}
