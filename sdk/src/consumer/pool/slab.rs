//! Queues that share one memory.

use super::piece::Piece;

/// The ends of one queue; `None` when it is empty.
pub(super) type Ends = Option<(usize, usize)>;

/// The pieces of many queues, linked, so that a queue needs no memory of its own. Grows to the most pieces that were ever
/// queued at once, which the buffer limits bound.
#[derive(Default)]
pub(super) struct Slab {
    nodes: Vec<Node>,
    /// The first node that is not in use.
    free: Option<usize>,
}

struct Node {
    /// `None` while not in use.
    piece: Option<Piece>,
    next: Option<usize>,
}

impl Slab {
    pub(super) fn push_back(&mut self, ends: &mut Ends, piece: Piece) {
        let node = self.occupy(piece, None);
        *ends = match *ends {
            None => Some((node, node)),
            Some((first, last)) => {
                self.nodes[last].next = Some(node);
                Some((first, node))
            }
        };
    }

    pub(super) fn push_front(&mut self, ends: &mut Ends, piece: Piece) {
        let node = self.occupy(piece, ends.map(|(first, _)| first));
        *ends = Some((node, ends.map_or(node, |(_, last)| last)));
    }

    pub(super) fn front_mut(&mut self, ends: Ends) -> Option<&mut Piece> {
        self.nodes[ends?.0].piece.as_mut()
    }

    pub(super) fn pop_front(&mut self, ends: &mut Ends) -> Option<Piece> {
        let (first, last) = (*ends)?;
        let node = &mut self.nodes[first];
        let piece = node.piece.take();
        let next = std::mem::replace(&mut node.next, self.free);
        self.free = Some(first);
        *ends = next.map(|next| (next, last));
        piece
    }

    fn occupy(&mut self, piece: Piece, next: Option<usize>) -> usize {
        let node = Node { piece: Some(piece), next };
        if let Some(index) = self.free {
            self.free = self.nodes[index].next;
            self.nodes[index] = node;
            return index;
        }
        self.nodes.push(node);
        self.nodes.len() - 1
    }
}
