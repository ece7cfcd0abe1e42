//! Many messages by one call: one admission where they fit, results in order.

use tokio::time::Instant;

use super::{
    Producer,
    error::SendError,
    handle::cost,
    report::SendResult,
    room::{NoRoom, Room},
    sending::Sending,
};
use crate::message::Message;

/// What does not fit at once goes in parts of this much of what one topic may have: large enough to cost little for each
/// message, small enough that a part waits for a part of what is in flight only.
const PART: usize = 8;

impl Producer {
    /// Sends messages in this order, and waits for the results: one for each, in the same order. Much cheaper than as
    /// many calls of [`send`](Self::send): one admission for all when there is room for them, else one for each part of
    /// an eighth of what the topic may have of the buffer.
    ///
    /// One that fails leaves the others alone, so that order is kept among those that arrive. But when a part finds no
    /// room within `max_block`, or the handle is closed, the rest is refused at once with the same cause.
    ///
    /// Dropping the future sends no more; what had its room by then may still be sent.
    ///
    /// ```
    /// # async fn example(producer: zms_sdk::Producer) {
    /// use zms_sdk::Message;
    ///
    /// let messages = (0..100).map(|n| Message::new(format!("order {n}")).key("customer-7")).collect();
    /// let results = producer.send_batch(messages).await;
    /// let failed: Vec<Message> =
    ///     results.into_iter().filter_map(|result| result.err()?.into_message()).collect();
    /// println!("{} messages to try again", failed.len());
    /// # }
    /// ```
    pub async fn send_batch(&self, messages: Vec<Message>) -> Vec<SendResult> {
        let mut results = Vec::with_capacity(messages.len());
        for sending in self.accept_all(messages).await {
            results.push(match sending {
                Ok(sending) => sending.await,
                Err(error) => Err(error),
            });
        }
        results
    }

    async fn accept_all(&self, messages: Vec<Message>) -> Vec<Result<Sending, SendError>> {
        let mut accepted = Vec::with_capacity(messages.len());
        let all = messages.iter().map(cost).fold(0, usize::saturating_add);
        let mut rest = messages.into_iter();
        if let Ok(room) = self.topic.account.try_take(all) {
            self.accept_part(rest.by_ref(), room, &mut accepted);
            return accepted;
        }
        while !rest.as_slice().is_empty() {
            let (count, bytes) = self.part(rest.as_slice());
            let started = Instant::now();
            match self.admit(bytes).await {
                Ok(room) => self.accept_part(rest.by_ref().take(count), room, &mut accepted),
                Err(no_room) => {
                    // Too large concerns its message alone, or a part that a buffer made smaller does not hold any more.
                    let concerned = if matches!(no_room, NoRoom::Ever { .. }) { count } else { rest.len() };
                    let waited = started.elapsed();
                    let refused = rest.by_ref().take(concerned);
                    accepted
                        .extend(refused.map(|message| Err(self.refuse(no_room.clone(), message, waited))));
                }
            }
        }
        accepted
    }

    fn accept_part(
        &self,
        messages: impl Iterator<Item = Message>,
        mut room: Room,
        accepted: &mut Vec<Result<Sending, SendError>>,
    ) {
        for message in messages {
            let own = room.split(cost(&message));
            accepted.push(Ok(self.accept(message, own)));
        }
    }

    /// How many of the messages go together, at least one, and their bytes.
    fn part(&self, messages: &[Message]) -> (usize, usize) {
        let limit = self.topic.core.pool.largest() / PART;
        let (mut count, mut bytes) = (0, 0_usize);
        for message in messages {
            let with_it = bytes.saturating_add(cost(message));
            if count > 0 && with_it > limit {
                break;
            }
            (count, bytes) = (count + 1, with_it);
        }
        (count, bytes)
    }
}
