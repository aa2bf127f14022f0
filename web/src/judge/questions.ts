/** What a rater is asked, one score at a time, in the order of the tasks. */

export type Part = "reasonable" | "think" | "speak";

export interface Stage {
  stage: "first" | "final";
  selection_item: string | null;
  following_item: string | null;
  intentions: readonly { id: string; label: string; reason?: string }[];
  reason: string;
  without: "" | "speech" | "summary";
  think: string;
  speech: string;
}

export interface Task {
  game_id: string;
  request_id: string;
  round: number;
  attempt: number;
  speaker: number;
  context: string;
  stages: readonly Stage[];
}

export interface Question {
  task: Task;
  stage: Stage;
  intention: Stage["intentions"][number];
  part: Part;
  /** The item that the score belongs to; thinking and speaking share one. */
  item: string;
}

export const questionsOf = (tasks: readonly Task[]): Question[] =>
  tasks.flatMap((task) =>
    task.stages.flatMap((stage) =>
      stage.intentions.flatMap((intention) => {
        const asked: Question[] = [];
        if (stage.selection_item) asked.push({ task, stage, intention, part: "reasonable", item: stage.selection_item });
        if (stage.following_item)
          for (const part of ["think", "speak"] as const) asked.push({ task, stage, intention, part, item: stage.following_item });
        return asked;
      }),
    ),
  );

/** The judgement that a question belongs to. */
export const judgementOf = ({ item, intention }: Question): string => `${item} ${intention.id}`;

export interface Judgement {
  item_id: string;
  intention: string;
  reasonable?: boolean;
  think?: number;
  speak?: number;
  comment?: string;
}

/** The judgement that is whole with these scores; undefined while one of its scores is missing. */
export const whole = (
  questions: readonly Question[],
  scores: ReadonlyMap<Question, number>,
  of: Question,
  comment: string,
): Judgement | undefined => {
  const same = questions.filter((one) => judgementOf(one) === judgementOf(of));
  if (same.some((one) => !scores.has(one))) return undefined;
  const found: Judgement = { item_id: of.item, intention: of.intention.id };
  for (const one of same) {
    const score = scores.get(one)!;
    if (one.part === "reasonable") found.reasonable = score === 1;
    else found[one.part] = score;
  }
  if (comment) found.comment = comment;
  return found;
};
